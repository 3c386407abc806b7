"""Constraint formalisms: what constraints mean and when one implies another (2.1.3)."""
