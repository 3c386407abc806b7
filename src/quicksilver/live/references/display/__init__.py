"""References for people: drawn, in the dissertation's notation, and compared."""
