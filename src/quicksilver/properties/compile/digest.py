"""The digest of a plan: two plans have the same one if they would be carried out alike.

Nodes compare digests before they work together. What a plan claims of itself (``invariant``,
``eventually``) and names of labels and variables are part of it: they cost nothing to keep
equal, and a digest that looks at everything needs no list of what does not matter.
"""

from __future__ import annotations

import enum
import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any

from quicksilver.properties.plan import Plan
from quicksilver.properties.values.intset import IntSet
from quicksilver.properties.values.kinds import Map
from quicksilver.properties.values.operators import items_of

DIGEST_CHARS = 32


def digest(plan: Plan) -> str:
    """Return the digest of a plan as hexadecimal digits, the same on every machine."""
    text = json.dumps(_plain(plan), ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARS]


def _plain(value: Any) -> Any:
    """Return a value as lists, texts and numbers; the type of everything is part of it."""
    if isinstance(value, enum.Enum):
        return [type(value).__name__, value.name]
    if isinstance(value, IntSet | frozenset | Map):
        return [type(value).__name__, [_plain(item) for item in items_of(value)]]
    if is_dataclass(value):
        parts = [_plain(getattr(value, field.name)) for field in fields(value)]
        return [type(value).__name__, *parts]
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
