"""Train, check, analyze and talk to recurrent sequence-to-sequence models."""

import os

__version__ = "0.2.0"

# TensorFlow reads this when it is imported; otherwise it prints ten lines about GPUs
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
# TensorFlow reads this when it first uses a GPU; otherwise it allocates all memory, and no second process fits
os.environ.setdefault(GROWTH, "true")
