"""Evaluation and inspection of trained runs.

Reading order:

1. ``loaded_run``: a run and its model, which can take the weights of any snapshot.
2. ``predictions``, ``scoring``, ``baseline``, ``evaluate``, ``metrics_table``: replies and losses on a corpus, kept in
   a file, the metrics computed from them, and the comparison with another run.
3. ``replies``: replies to the same questions, and transcripts of other systems.
4. ``votes``: blind evaluations, in which people vote on pairs of replies, and their statistics.
5. ``model_view``: beams, vectors, gradients and gates of a model.
6. ``figures``: plots of all of the above.
7. ``report``: all of it on one HTML page.
"""
