"""The typed record of what happened, shared by everything that looks at runs."""
