"""The systems that scripts/benchmark_*.py time against each other, each in a file and in a process of its own."""
