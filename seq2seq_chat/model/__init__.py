"""The sequence-to-sequence model.

Reading order: weights, embeddings, dropout, cells, attention, encoder, decoder, output, seq2seq.
"""
