"""How fast the Spark connector is, next to the least that Spark itself can do."""
