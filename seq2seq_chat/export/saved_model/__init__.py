"""A trained run as a TensorFlow SavedModel, from strings to strings.

Reading order: graph_tokenizer, reply_model and text_model, export, usage.
"""
