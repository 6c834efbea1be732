"""Training.

Reading order: sampler, clipping, precision, optimizers, schedules, distribution, step, learner, metrics, loop,
validation, saving, reports, chief, worker, resume, setup, experiment.
"""
