"""Plans carried out: pure steps on states that never change, and their place in rounds."""
