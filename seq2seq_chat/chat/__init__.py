"""From a trained run to replies and texts.

Reading order: load, chatbot, replies, watched_search, decode_corpus; generator for language models.
"""
