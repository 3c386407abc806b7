"""The ``quicksilver`` command: one module a command, ``main`` assembles them."""
