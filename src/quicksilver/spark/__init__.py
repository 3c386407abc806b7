"""What needs Spark: groups as tables and streams, tables of traces, plans of regions, sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quicksilver.spark.sessions import session

__all__ = ["session"]


def __getattr__(name: str) -> Any:
    # Late, so that Spark's many Python workers do not load what only drivers need.
    if name == "session":
        from quicksilver.spark.sessions import session

        return session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
