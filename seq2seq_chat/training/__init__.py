"""Training.

Reading order: optimizers, distribution, step, learner, loop, validation, saving, reporter, restore, language_model
(what is particular to that task), assemble, experiment.
"""
