"""From a trained run to replies and texts.

Reading order: load, chatbot, replies, joint_replies, watched_search; generator for language models.
"""
