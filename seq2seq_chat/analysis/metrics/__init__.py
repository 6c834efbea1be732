"""Metrics of plain texts, independent of the model, and the sentence vectors they need.

Read ``diversity`` and ``ngrams`` first, then ``sent2vec`` (the model format), ``sent2vec_training`` and
``sentence_vectors`` (which model a run uses), and ``distance`` (the metric on those vectors). ``scores`` has BLEU and
chrF, with ``bootstrap`` for their intervals and ``source_length`` for BLEU by length. Validation computes its BLEU in
``training``.
"""
