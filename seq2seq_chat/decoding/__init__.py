"""Search over a step function.

Reading order: result, hypotheses, logit_rules, search, sequential, sampling, beam, observed_beam.

A search does not depend on a network: it calls a ``step`` function, so tests can give it handmade probabilities.
"""
