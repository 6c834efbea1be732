"""Models in TensorFlow.

Reading order: restore, steps (for the searches of ``search/``), graph_search (a whole search as one graph), scorer,
engine, language_model.
"""
