"""Readers of raw corpora."""
