"""Retained values as applications ask for them: checked at the call, and kept for any thread."""

from __future__ import annotations

import threading
from typing import Any

from quicksilver.multicast.retained import RETAINED_BYTES_MAX, Value, Values
from quicksilver.multicast.sending.empty import Empty
from quicksilver.node.errors import MessageTooLargeError, OptionError
from quicksilver.wire.envelope import Envelope, Kind, encode_enveloped
from quicksilver.wire.packets import MESSAGE_BYTES_MAX

RETAIN_MAX = 1000
_BATCH_MAX = (1 << 62) - 1
"""The batch number that takes the most bytes in an envelope."""


def check_retain(retain: Any) -> int:
    """Return how many values are to be kept; raises OptionError."""
    if type(retain) is not int or not 0 <= retain <= RETAIN_MAX:
        raise OptionError("retain", f"must be a number of messages from 0 to {RETAIN_MAX}")
    return retain


def kept_or(empty: Empty | None, retain: int) -> Empty | None:
    """Return what becomes of messages to an empty group: the last ones are kept anyway."""
    return "drop" if retain and empty is None else empty


def check_replay(envelope: Envelope, body: bytes) -> None:
    """Refuse a value that newcomers could not get: its envelope grows when it is sent again.

    Raises:
        OptionError: key and headers are too long for that.
        MessageTooLargeError: the message and its envelope are too long together.
    """
    longest = Envelope(envelope.key, envelope.headers, Kind.RETAINED, _BATCH_MAX)
    try:
        size = len(encode_enveloped(longest, b"")) + len(body)
    except ValueError as error:
        problem = f"{error} where values are retained; put large values into the payload"
        raise OptionError("headers", problem) from None
    if size > MESSAGE_BYTES_MAX:
        raise MessageTooLargeError(size, MESSAGE_BYTES_MAX)


class Retained(Values):
    """The last values that a node sent to one group; any thread may use it."""

    def __init__(self, count: int, bytes_max: int = RETAINED_BYTES_MAX) -> None:
        super().__init__(count, bytes_max)
        self._lock = threading.Lock()

    def _keep(self, payload: bytes, envelope: Envelope, body: bytes) -> None:
        """Keep a value; raises what ``check_replay`` does."""
        check_replay(envelope, body)
        with self._lock:
            super()._keep(payload, envelope, body)

    def _in_order(self) -> list[Value]:
        with self._lock:
            return super()._in_order()
