"""The laboratory: real processes on this machine, and many runs one after another.

``processes`` starts, watches and stops processes; ``child`` is what such a process does to
speak to its parent; ``namespaces`` makes networks for them. ``worker`` is the program of a
node in a process of its own, as ``participants`` (of ``up`` and ``demo``), as ``load`` (of
benchmarks and experiments, run by ``load_run``), for ``stalls`` or in a ``soak``.
``local_gms`` is a GMS that can be killed, with wires to it that can be cut. ``batch`` drives
many runs over all cores and keeps what is finished.
"""
