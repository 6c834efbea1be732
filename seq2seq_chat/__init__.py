"""Train, check, analyse and talk to conversational sequence-to-sequence models."""

__version__ = "0.1.0"
