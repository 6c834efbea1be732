"""Export a trained run to other formats.

Reading order of the SavedModel export: graph_tokenizer, vocabulary_tables, reply_model and text_model,
saved_model, usage.
"""
