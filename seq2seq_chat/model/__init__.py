"""The sequence-to-sequence model.

Reading order: variables, cells, attention, encoder, decoder, output, seq2seq, language_model; then deferred,
matrix_copies, step_copies, randomness and execution for training.
"""
