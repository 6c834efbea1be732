"""Training.

Reading order: sampler, clipping, precision, optimizers, schedules, distribution, step, learner, metrics, loop,
bleu, validation, saving, reporter, chief, worker, resume, setup, experiment.
"""
