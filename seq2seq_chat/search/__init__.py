"""The search for replies, for any engine: greedy, beam and sampling search as plain NumPy.

A search holds hypotheses, an engine holds a model's weights and states; only ids and a few numbers cross the border
between them. Reading order: engine, logit_rules, methods, records, batches.
"""
