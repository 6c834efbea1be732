"""Checkpoints: arrays ↔ files, without TensorFlow."""
