"""Random weights for models under test."""

import numpy as np
import tensorflow as tf


def randomize(module: tf.Module, seed: int, scale: float = 1.0) -> np.random.Generator:
    """Assign normal numbers, larger than initial values so that nothing is nearly linear; return the generator.

    Rectified units get smaller ones, as they would amplify the rounding of each step.
    """
    if getattr(getattr(module, "config", None), "activation", "tanh") == "relu":
        scale /= 6
    rng = np.random.default_rng(seed)
    for variable in module.trainable_variables:
        variable.assign(rng.normal(size=variable.shape) * scale)
    return rng
