"""Models in TensorFlow. Reading order: engine, search, scorer, language_model."""
