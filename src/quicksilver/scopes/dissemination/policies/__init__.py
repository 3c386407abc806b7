"""Forwarding policies: along which channels messages travel between the members of a scope."""
