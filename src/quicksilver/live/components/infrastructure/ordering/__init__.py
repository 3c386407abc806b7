"""Total order and state transfer over a reliable channel and views; see ``replica``."""
