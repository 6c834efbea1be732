"""What a model consists of, as a function of its configuration: sizes, variables and memory; without TensorFlow."""
