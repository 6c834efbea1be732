"""The sequence-to-sequence model.

Reading order: weights, embeddings, cells, attention, encoder, decoder, output, seq2seq, language_model; then deferred,
shared_tensor, randomness, scheduled_sampling, micro_batches and step_copies for training.
"""
