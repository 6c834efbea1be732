"""Checks that a model can learn, to be run before weeks of training.

Reading order: subject (what is checked), then the checks from cheap to dear - data, memory, initial_loss, gradients,
padding, save_and_load, decoding, overfitting, copy_task - and suite, which runs them.
"""
