"""The sequence-to-sequence model. Reading order: weights, embeddings, cells, attention, encoder, decoder, output, seq2seq."""
