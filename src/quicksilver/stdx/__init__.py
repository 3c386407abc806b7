"""Small building blocks without a layer of their own above the language."""
