"""Training.

Reading order: sampler, optimizers, distribution, step, learner, loop, validation, saving, reporter, chief, worker,
resume, sample_setup and language_model (what is particular to a task), setup, experiment.
"""
