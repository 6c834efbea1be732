"""From a trained run to replies and texts.

Reading order: load, chatbot, detokenize, rerank, notes, watched_search, decode_corpus; generator and
language_model_scorer for language models.
"""
