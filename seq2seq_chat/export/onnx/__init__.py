"""A trained run as ONNX graphs of its encoder and of one step of its decoder.

Reading order: graph, quantization, weights, layers, model (the graphs), export, usage (the rest of the folder).
"""
