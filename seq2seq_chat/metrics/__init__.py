"""Metrics of texts and losses, independent of the model, and the sentence vectors they need.

Read ``perplexity``, ``diversity`` and ``ngrams`` first, then ``scores`` (BLEU and chrF, with ``bootstrap`` for their
intervals and ``source_length`` for BLEU by length). ``sent2vec`` (the model format), ``sent2vec_training`` and
``sentence_vectors`` (which model a run uses) are for the metric on vectors in ``distance``.
"""
