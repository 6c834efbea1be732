"""Checks that a model can learn, to run before a long training.

Reading order: ``check_context`` (what is checked); the checks from fast to slow: ``data``, ``invariants``,
``gradients``, ``save_and_load``, ``learning`` with ``learning_trial``, ``alignment``, ``overfitting`` and
``copy_task``, of which the last three share ``reply_task``; ``language_model``; and ``suite``, which runs and reports
them.
"""
