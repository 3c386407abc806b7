"""Wrappers, which make an object into one of another type, and hosting on other nodes."""

from __future__ import annotations

from quicksilver.live.components.platform.encryption import Encryption, add_to
from quicksilver.live.components.platform.hosting import Platform

COMPONENTS: tuple[type, ...] = (Encryption, Platform)

__all__ = ["COMPONENTS", "add_to"]
