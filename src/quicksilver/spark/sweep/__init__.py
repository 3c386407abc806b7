"""Thousands of simulations as one Spark job."""
