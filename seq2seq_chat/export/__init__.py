"""Export a trained run to other formats.

Each format has its own package: ``saved_model`` for programs with TensorFlow, ``onnx`` for programs without it, and
``html`` for a page that talks in a browser, without a server. Their ``export.py`` writes the output folder.
"""
