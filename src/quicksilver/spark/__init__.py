"""Data pipelines on Spark: groups as streams, traces into figures, plans of regions, sweeps."""
