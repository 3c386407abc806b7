"""The papers' evaluation, run again: in the simulator and with real processes.

``catalogue`` holds the experiments, one subject a file: what each varies, what the
papers say, how one point of it is run. ``scenario`` runs a point in virtual time,
``real`` with processes of this machine; ``store`` keeps finished points, so that a
sweep can be interrupted and resumed, and puts the papers' words next to our numbers;
``sweep`` is many simulations at once.
See docs/experiments.md.
"""
