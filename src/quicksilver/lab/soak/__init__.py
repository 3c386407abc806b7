"""The soak: real processes for minutes or hours, among random mishaps, every message checked.

``worker`` is a node that sends, receives and checks; ``records`` is what it tells;
``judge`` compares what was confirmed with what was delivered; ``acts`` are the mishaps;
``run`` brings it together and ``report`` is what came of it.
"""
