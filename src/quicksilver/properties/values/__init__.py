"""What properties hold: kinds of values, the values themselves, operators, and their bytes."""
