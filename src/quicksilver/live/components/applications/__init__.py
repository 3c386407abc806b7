"""Applications as live objects: what people share, and bridges to what they have."""

from __future__ import annotations

from quicksilver.live.components.applications.counter import Counter
from quicksilver.live.components.applications.desktop import Desktop
from quicksilver.live.components.applications.dictionary import Dictionary
from quicksilver.live.components.applications.image import Image
from quicksilver.live.components.applications.spreadsheet import Spreadsheet
from quicksilver.live.components.applications.sqlite import SqliteTable
from quicksilver.live.components.applications.streams import CoordinateStream, SensorStream
from quicksilver.live.components.applications.table import Table
from quicksilver.live.components.applications.text import CheckpointedText, ReliableText
from quicksilver.live.components.applications.video import (
    ReliableVideoStream,
    VideoPattern,
    VideoStream,
)

COMPONENTS: tuple[type, ...] = (
    CheckpointedText,
    CoordinateStream,
    Counter,
    Desktop,
    Dictionary,
    Image,
    ReliableText,
    ReliableVideoStream,
    SensorStream,
    Spreadsheet,
    SqliteTable,
    Table,
    VideoPattern,
    VideoStream,
)
