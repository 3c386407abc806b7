"""Live distributed objects: protocol instances as typed components (dissertation, chapter 2).

Types are data (``types``), constraints live in pluggable formalisms
(``formalisms``), references are passive, portable descriptions of objects
(``references``), and dereferencing one makes proxies that meet only through
their endpoints.

``platform`` and ``platform_in_thread`` are the short way to all of it: see ``api``.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quicksilver.live.api import platform, platform_in_thread

__all__ = ["platform", "platform_in_thread"]


def __getattr__(name: str) -> Any:
    # Late: who only checks references does not need nodes and components.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from quicksilver.live import api

    return getattr(api, name)
