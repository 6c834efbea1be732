"""Checks that a model can learn, to run before a long training.

Reading order: ``check_context`` (what is checked); the checks from fast to slow: ``invariants``, ``gradients``,
``save_and_load``, ``learning`` with ``learning_trial``, and ``reply_tasks``; ``suite``, which runs and reports them.
"""
