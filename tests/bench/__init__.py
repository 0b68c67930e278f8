"""Benchmarks of the generator against itself and others: ``python -m tests.bench``."""
