"""The same work through other systems: one sender, R receivers, loopback.

Each module but the shared ones (``result``, ``greeting``, ``table``, ``run``)
is one peer and has ``NAME``, ``INSTALL`` and ``run(receivers, size, seconds)``.
README.md says how each peer is configured and why.
"""
