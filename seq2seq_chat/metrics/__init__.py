"""Metrics of texts and losses, independent of the model, and the sentence vectors they need.

Read ``scores`` (BLEU and chrF with their intervals, BLEU by length of the source, perplexity) and ``ngrams`` (with
diversity) first, then ``sent2vec`` (the model format) and ``sentence_vectors`` (training one, and distances).
"""
