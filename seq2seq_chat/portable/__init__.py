"""Exported models, computed by ONNX Runtime and NumPy where TensorFlow is not installed.

The searches are those of ``decoding/``, with arrays in place of graphs. Reading order: steps, logit_rules, search,
beam, sampling, manifest, sessions, scorer, reply_engine, text_engine.
"""
