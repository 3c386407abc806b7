"""Planning regions at scale: from who is in which group to a plan that the GMS loads."""
