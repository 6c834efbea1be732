"""Train, check, analyse and talk to conversational sequence-to-sequence models."""

import os

__version__ = "0.1.0"

# TensorFlow reads it when it is imported; without it a conversation begins with ten lines about graphics cards
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
# TensorFlow reads it when it first looks at a GPU, of which it would otherwise take all memory: a training and a web
# page are to fit on one
os.environ.setdefault(GROWTH, "true")
