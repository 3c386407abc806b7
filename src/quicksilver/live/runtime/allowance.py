"""What a guest may start: a limit on objects that came from elsewhere (2.1.6, last paragraph).

Objects that can deploy themselves can also spread like a disease; the
dissertation asks for a form of resource control. An allowance is given to an
object when it is opened, and holds for all that it opens in turn.
"""

from __future__ import annotations

import fnmatch

import msgspec

from quicksilver.live.references.names import LIBRARY
from quicksilver.live.runtime.errors import LimitError
from quicksilver.node.samples import resident_bytes


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a guest, with all that it opens, may have."""

    identifiers: tuple[str, ...] = ("quicksilver.*", "0x2", "0x3")
    """What it may start, with ``*`` for any text. A library also needs ``libraries``."""

    components_max: int = 100
    """Components that run at one time."""

    depth_max: int = 8
    """Components that open each other."""

    queued_max: int = 1000
    """Events that may wait for one queued endpoint; beyond it the component ends."""

    libraries: bool = False
    """Whether it may load code; the node's own list of allowed sources holds as well."""

    process_bytes_max: int = 0
    """Start nothing more once the whole process has this much memory; 0: however much."""


class Allowance:
    """Limits, and how much of them is used."""

    def __init__(self, limits: Limits, name: str = "the guest") -> None:
        self.limits = limits
        self.name = name
        self.components = 0
        """How many of its components run now."""
        self._base: int | None = None
        """How deep its first component is, within whatever hosts it."""
        self.refused = 0
        """How often it wanted more than it may have."""

    def admit(self, identifier: str, depth: int) -> None:
        """Count one more component; raises LimitError, which says what was too much."""
        if self._base is None:
            self._base = depth
        problem = self._find_problem(identifier, depth - self._base)
        if problem:
            self.refused += 1
            raise LimitError(f"{self.name} may not start {identifier!r}: {problem}")
        self.components += 1

    def release(self) -> None:
        """Count one component less."""
        self.components -= 1
        assert self.components >= 0

    def _find_problem(self, identifier: str, depth: int) -> str:
        limits = self.limits
        is_library = identifier == LIBRARY or identifier.startswith("library.")
        if is_library:
            if not limits.libraries:
                return "it may not load libraries"
        elif not any(fnmatch.fnmatchcase(identifier, one) for one in limits.identifiers):
            return f"it may start {', '.join(limits.identifiers) or 'nothing'}"
        if depth > limits.depth_max:
            return f"it may open {limits.depth_max} components inside each other"
        if self.components >= limits.components_max:
            return f"it may have {limits.components_max} components"
        if limits.process_bytes_max and resident_bytes() > limits.process_bytes_max:
            return f"this process may have {limits.process_bytes_max} bytes of memory"
        return ""
