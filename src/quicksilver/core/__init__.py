"""Event scheduler, pull stack, and the ports an engine sees."""
