"""The search as one TensorFlow graph, for whole batches that nobody watches, and for SavedModels.

Reading order: search, logit_rules, methods. It finds what the search of ``search/`` finds, which is easier to read.

A search does not depend on a network: it calls a ``step`` function, so tests can give it handmade probabilities.
"""
