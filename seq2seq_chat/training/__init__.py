"""Training.

Reading order: order, batches, gradients, precision, optimizers, parts, cluster, distribution, step, validation,
checkpoints, restore, memory, metrics, console, trainer, follower.
"""
