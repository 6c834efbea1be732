"""A trained run → a TensorFlow SavedModel that answers without this package. Reading order: tokens, answers, folder."""
