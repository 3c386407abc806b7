"""Carrying messages between the members of a scope: policies, channels, filters, copies."""
