"""What a trained model is worth, what it says, and what goes on inside it.

Read the files in this order; each is one idea, and nothing here knows of the command line or the web:

1. ``bleu``, ``sent2vec``, ``distance``, ``diversity``: the metrics, on plain texts.
2. ``sent2vec_training``, ``sentence_vectors``: vectors from the run's own corpus, where there is no official model.
3. ``subject``: a run, and its model with the weights of one snapshot after the other.
4. ``predictions``, ``evaluate``: replies and losses of a corpus, kept in a file; what they come to.
5. ``ngrams``, ``replies``: the language of the replies, and the same questions at every snapshot.
6. ``curves``, ``attention``, ``beams``, ``vectors``, ``inside``: one look each, with its pictures (``style``).
7. ``findings``, ``page``, ``chapters``, ``model_chapters``, ``report``: all of it as one page.
"""
