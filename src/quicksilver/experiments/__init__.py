"""The papers' evaluation, run again: in the simulator and with real processes.

``catalogue`` holds one experiment a file: what it varies, what the papers say, how
one point of it is run. ``scenario`` runs a point in virtual time, ``real`` with
processes of this machine; ``store`` keeps finished points, so that a sweep can be
interrupted and resumed; ``sweep`` is many simulations at once; ``summary`` puts the
papers' words next to our numbers.
See docs/experiments.md.
"""
