"""Groups as Spark tables and streams: ``format("quicksilver")``."""
