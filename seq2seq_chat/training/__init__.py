"""Training.

Reading order: order, batches, gradients, precision, optimizers, parts, step, validation, checkpoints, restore, memory,
metrics, console, trainer.
"""
