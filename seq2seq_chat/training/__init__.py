"""Training. Reading order: order, gradients, optimizers, step, validation, checkpoints, memory, metrics, console, trainer."""
