"""The sequence-to-sequence model.

Reading order: weights, embeddings, cells, attention, encoder, decoder, output, seq2seq; then deferred, randomness,
dropout, scheduled_sampling and micro_batches for training.
"""
