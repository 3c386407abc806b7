"""Packets as types, and their bounded codecs."""
