"""From a trained run to replies and texts.

Reading order: load, chatbot, detokenize, rerank, watched_search; generator, language_model_scorer.
"""
