"""A trained run as a TensorFlow SavedModel, from strings to strings. Reading order: graph_tokenizer, models, export."""
