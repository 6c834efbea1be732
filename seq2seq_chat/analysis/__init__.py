"""Evaluation and inspection of trained runs.

Reading order; nothing here knows the command line or the web UI:

1. ``metrics``: BLEU, Sent2Vec distance, diversity and n-gram statistics of plain texts.
2. ``loaded_run``: a run and its model, which can take the weights of any snapshot.
3. ``predictions``, ``evaluate``: replies and losses on a corpus, kept in a file, and the metrics computed from them.
4. ``replies``: replies to fixed questions, and transcripts of other systems.
5. ``model_view``: beams, vectors, gradients and gates of a model.
6. ``figures``: figures of all of the above.
7. ``report``: everything on one HTML page.
"""
