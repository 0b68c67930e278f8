"""loadgen: load testing and latency benchmarking for agent chat services."""

__version__ = "0.1.0"
