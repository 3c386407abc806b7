"""The controller of a machine: one node, and the applications that share it."""
