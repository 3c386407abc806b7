"""The log of a checkpointed channel on disk."""
