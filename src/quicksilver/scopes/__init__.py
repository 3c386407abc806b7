"""Scopes: sets of nodes that are managed together, one inside the other (dissertation 3.2)."""
