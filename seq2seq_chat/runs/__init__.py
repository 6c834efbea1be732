"""The folder of a run: find, lock, list, summarize and compare runs, and grids of them. No TensorFlow."""
