"""Training.

Reading order: order, batches, gradients, precision, optimizers, step, validation, checkpoints, restore, memory,
metrics, console, trainer.
"""
