"""Train, check, analyze and talk to recurrent sequence-to-sequence models."""

import importlib
import os
import platform
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2seq_chat.chat.chatbot import Chatbot, Translator
    from seq2seq_chat.chat.generator import Generator
    from seq2seq_chat.config import load_config
    from seq2seq_chat.report.evaluate import evaluate
    from seq2seq_chat.runs.find import find_run
    from seq2seq_chat.training.experiment import train

__all__ = ["Chatbot", "Generator", "Translator", "evaluate", "find_run", "load_config", "train"]

__version__ = "1.0.0"

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

_MODULES = {
    "Chatbot": "chat.chatbot",
    "Generator": "chat.generator",
    "Translator": "chat.chatbot",
    "evaluate": "report.evaluate",
    "find_run": "runs.find",
    "load_config": "config",
    "train": "training.experiment",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
