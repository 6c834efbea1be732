"""Train, check, analyze and talk to recurrent sequence-to-sequence models."""

import os
import platform
import sys

__version__ = "0.2.0"

# TensorFlow reads this when it is imported; otherwise it prints ten lines about GPUs
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
# TensorFlow reads this when it is imported; otherwise it uses oneDNN only where there are instructions for neural
# networks (AVX-512 VNNI), although products are faster with oneDNN's kernels for AVX2, too
if platform.machine() in ("x86_64", "AMD64") and "tensorflow" not in sys.modules:
    os.environ.setdefault(ONEDNN, "1")

GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
# TensorFlow reads this when it first uses a GPU; otherwise it allocates all memory, and no second process fits
os.environ.setdefault(GROWTH, "true")
