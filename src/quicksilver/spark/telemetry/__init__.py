"""Traces on Spark: as written (bronze), aligned (silver), by the second (gold)."""
