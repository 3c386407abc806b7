"""The laboratory: real processes on this machine, and many runs one after another.

``processes`` starts, watches and stops processes; ``child`` is the other end of
the line, inside such a process; ``namespaces`` makes networks for them. ``worker``
is the program of a node in a process of its own, as ``participants`` (of ``up`` and
``demo``), as ``load`` (of benchmarks and experiments, run by ``load_run``) or in a ``soak``;
``local_gms`` is a GMS that can be killed, and wires to it that can be cut.
``batch`` drives many runs over all cores and keeps what is finished.
"""
