"""From a checked program to a plan, and a plan's digest."""
