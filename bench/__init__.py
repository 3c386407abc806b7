"""Benchmarks that are not part of the package: comparisons with other systems."""
