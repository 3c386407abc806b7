"""Whether a program means something: its names, types, places and assignments, one rule a file.

``check.program`` brings them together; findings are collected, sorted by place, never raised.
"""
