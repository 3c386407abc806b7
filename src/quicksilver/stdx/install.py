"""The line that installs quicksilver or one of its extras; every hint is made here.

The package is called ``quicksilver-multicast`` where packages are published, because
``quicksilver`` belongs to somebody else there. What one imports and the command that one
types are called ``quicksilver``.
"""

from __future__ import annotations

DISTRIBUTION = "quicksilver-multicast"
"""The name in ``pyproject.toml``; a test compares the two."""


def install_line(extra: str = "") -> str:
    """Return what to type in a shell, such as ``pip install 'quicksilver-multicast[cli]'``."""
    return f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install {DISTRIBUTION}"
