"""Search for replies. Reading order: hypotheses, greedy, beam, reply_search.

A search knows no network: it works on a ``step`` function, so it is tested with hand-made probabilities.
"""
