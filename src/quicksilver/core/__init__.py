"""Event scheduler, pull stack, and the ports between a session and its host."""
