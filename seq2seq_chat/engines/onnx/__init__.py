"""Exported models, computed by ONNX Runtime where TensorFlow is not installed."""
