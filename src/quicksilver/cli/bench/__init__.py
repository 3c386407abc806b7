"""Benchmarks with real processes: quicksilver against a protocol-free ceiling."""
