"""Trials of scopes: trees of managers and nodes in virtual time, with faults, judged by checks."""
