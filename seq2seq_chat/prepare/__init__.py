"""Raw corpora to corpus files. No TensorFlow."""
