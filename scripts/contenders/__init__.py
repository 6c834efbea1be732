"""The systems that scripts/benchmark_*.py compare, each in its own module and process."""
