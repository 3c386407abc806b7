"""Sessions at a node: the multiplexer and the stacks of each session (dissertation 3.2.7-3.2.8)."""
