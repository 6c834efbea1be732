"""Strings to word ids and back: tokenizers, vocabularies, lexicons. No TensorFlow."""
