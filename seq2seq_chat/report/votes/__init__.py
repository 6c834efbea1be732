"""Blind evaluation: people vote on pairs of replies, and statistics of their votes. No TensorFlow."""
