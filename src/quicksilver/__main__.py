"""``python -m quicksilver``: the same as the ``quicksilver`` command."""

from quicksilver.cli.main import main

if __name__ == "__main__":
    main()
