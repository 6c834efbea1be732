"""Training.

Reading order: order, batches, gradients, optimizers, step, validation, checkpoints, restore, memory, metrics, console,
trainer.
"""
