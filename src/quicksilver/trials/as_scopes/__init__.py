"""The engine's trials on scopes that do what QSM does: the same plans, loads, faults and checks."""
