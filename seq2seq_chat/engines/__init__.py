"""What computes a model: TensorFlow with the weights of a run, or ONNX Runtime with an exported model."""
