"""Plain Python on small tables: the papers' figures, their analytical model, reports."""
