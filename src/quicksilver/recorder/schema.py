"""What a recorded message is: the columns of a segment.

``offset`` counts the messages of one group in one log. ``sender`` and
``sequence`` say which message it is, wherever it was recorded; ``batch`` is the
membership batch that fixes the view it was committed to.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

VERSION: Final = "1"
VERSION_KEY: Final = b"quicksilver.segment"
GROUP_KEY: Final = b"quicksilver.group"

COLUMNS: Final = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("sender", pa.int64(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary(), nullable=False),
        pa.field(
            "headers",
            pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
        ),
    ]
)


def segment_schema(group: str) -> pa.Schema:
    """Return the columns with what identifies a segment."""
    return COLUMNS.with_metadata({VERSION_KEY: VERSION.encode(), GROUP_KEY: group.encode()})
