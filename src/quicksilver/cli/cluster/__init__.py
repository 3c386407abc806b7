"""Clusters of real processes on this machine, for ``up`` and ``demo``.

``groupspec`` says who joins what, ``worker`` is one node in its own process,
``children`` starts and supervises processes, ``mortality`` sees to it that none
outlives its parent.
"""
