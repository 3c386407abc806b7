"""What a recorded message is: the columns of a segment.

``offset`` counts the messages of one group in one log. ``cluster``, ``sender``
and ``sequence`` say which message it is, wherever it was recorded (a new GMS
without its old state begins a new cluster, with the same numbers for other
nodes); ``batch`` is the membership batch that fixes the view it was committed
to. ``origin`` is the row of a job that the message is, if a job sent it.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

VERSION: Final = "2"
"""Version 1 had no checksums in its segments; it is not read."""
VERSION_KEY: Final = b"quicksilver.segment"
GROUP_KEY: Final = b"quicksilver.group"
ORIGIN_BYTES: Final = 36

HEADERS_TYPE: Final = pa.list_(
    pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
)

COLUMNS: Final = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("cluster", pa.int64(), nullable=False),
        pa.field("sender", pa.int64(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary(), nullable=False),
        pa.field("headers", HEADERS_TYPE),
        pa.field("origin", pa.binary(ORIGIN_BYTES)),
    ]
)


def segment_schema(group: str) -> pa.Schema:
    """Return the columns with what identifies a segment."""
    return COLUMNS.with_metadata({VERSION_KEY: VERSION.encode(), GROUP_KEY: group.encode()})
