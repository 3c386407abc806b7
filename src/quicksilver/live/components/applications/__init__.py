"""Applications as live objects: what people share, and bridges to what they have."""

from __future__ import annotations

from quicksilver.live.components.applications.counter import Counter
from quicksilver.live.components.applications.dictionary import Dictionary
from quicksilver.live.components.applications.text import CheckpointedText
from quicksilver.live.components.applications.text_reliable import ReliableText

COMPONENTS: tuple[type, ...] = (
    CheckpointedText,
    Counter,
    Dictionary,
    ReliableText,
)
