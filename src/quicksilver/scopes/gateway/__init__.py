"""Gateways: nodes of a network with a GMS that connect its groups with topics of its scope."""
