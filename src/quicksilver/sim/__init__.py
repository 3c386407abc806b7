"""The second host: virtual time, a modelled network, modelled machines.

Beside ``net``, and in its place: a ``SimHost`` drives a session through the same
ports as a core thread does, with a ``VirtualNetwork`` where the sockets were.
Nothing here reads a clock or draws chance that was not derived from a seed, so
the same seed gives the same run, byte for byte.
"""
