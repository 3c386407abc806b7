"""Agents in recovery domains: agreement in rounds, nested to any depth.

This package knows neither packets nor groups. A domain is a set of nodes whose agents
take part in rounds; what a round carries, and what follows from it, belongs to the
protocol that uses it (dissertation 3.2.9–3.2.13).
"""
