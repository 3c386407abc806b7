"""The papers' evaluation, run again: in the simulator and with real processes."""
