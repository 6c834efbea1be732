"""Training.

Reading order: sampler, clipping, precision, optimizers, schedules, distribution, step, learner, metrics, loop,
validation, saving, reporter, chief, worker, resume, setup, experiment.
"""
