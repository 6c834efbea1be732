"""The sequence-to-sequence model.

Reading order: deferred, weights, embeddings, dropout, cells, attention, encoder, decoder, output, seq2seq.
"""
