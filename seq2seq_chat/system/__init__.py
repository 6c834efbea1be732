"""The operating system: files, signals, hardware, versions, and tables for the terminal. No TensorFlow."""
