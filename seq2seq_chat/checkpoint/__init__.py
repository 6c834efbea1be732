"""Checkpoints: variables ↔ files, and a run's files → its trained model."""
