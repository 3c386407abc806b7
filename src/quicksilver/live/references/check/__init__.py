"""The static check: what type a reference has, and everything that is wrong with it.

``evaluator`` goes through a reference and finds its type; ``composites``, ``externals``
and ``arguments`` have the rules of their kinds. ``findings`` gives the result places,
and keeps it. What others need is here.
"""

from quicksilver.live.references.check.findings import (
    Checked,
    Finding,
    UnsoundReferenceError,
    check,
    require_sound,
)

__all__ = ["Checked", "Finding", "UnsoundReferenceError", "check", "require_sound"]
