"""What training reads: corpus files, vocabularies, samples, batches. No TensorFlow."""
