"""Recovery in scopes: a node's agents in domains, and what they agree on (3.2.9–3.2.15)."""
