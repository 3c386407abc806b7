"""Many nodes in virtual time, which crash and start again, on the steps that real nodes run."""
