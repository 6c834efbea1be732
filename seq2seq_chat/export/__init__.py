"""Export a trained run to other formats.

Reading order of the SavedModel export: graph_tokenizer, reply_model, saved_model, usage.
"""
