"""What live objects cost: ``python -m bench.live.run``."""
