"""One topic across several networks of this machine, in real processes that are harmed."""
