"""Search over a step function. Reading order: hypotheses, active, sequential, sampling, beam, logit_rules.

A search does not depend on a network: it calls a ``step`` function, so tests can give it handmade probabilities.
"""
