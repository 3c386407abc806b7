"""What makes objects into others, and brings them to other nodes: wrappers and hosting."""

from __future__ import annotations

from quicksilver.live.components.platform.encryption import Encryption, add_to
from quicksilver.live.components.platform.hosting import Platform

COMPONENTS: tuple[type, ...] = (Encryption, Platform)

__all__ = ["COMPONENTS", "add_to"]
