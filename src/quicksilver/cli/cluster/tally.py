"""What a subscriber saw, in a form that a publisher's own account can be held against.

Every stream (one sender's messages to one group) is reduced to its first
sequence number, how many came, whether the numbers were contiguous, and a
checksum chained over all payloads in order: it differs if any message is
missing, doubled, changed or out of order.
"""

from __future__ import annotations

from zlib import crc32

import msgspec

from quicksilver.node.messages import Batch


class StreamAccount(msgspec.Struct):
    """One sender's messages to one group."""

    sender: int
    group: str
    first: int = 0
    count: int = 0
    checksum: int = 0
    breaks: int = 0
    """Times that a sequence number was not the one after its predecessor."""


class Tally:
    """Accounts of every stream that a node receives; fed on the core thread."""

    def __init__(self) -> None:
        self.accounts: dict[tuple[int, str], StreamAccount] = {}
        self.messages = 0
        self.bytes = 0

    def handle_batch(self, batch: Batch) -> None:
        """Take consecutive messages of one stream."""
        account = self.accounts.get((batch.sender, batch.group))
        if account is None:
            account = StreamAccount(batch.sender, batch.group, batch.first)
            self.accounts[batch.sender, batch.group] = account
        expected = account.first + account.count
        if batch.sequences is None:
            account.breaks += batch.first != expected
        else:
            count = len(batch.sequences)
            account.breaks += list(batch.sequences) != list(range(expected, expected + count))
        checksum = account.checksum
        for payload in batch.payloads:
            checksum = crc32(payload, checksum)
            self.bytes += len(payload)
        account.checksum = checksum
        account.count += len(batch.payloads)
        self.messages += len(batch.payloads)

    def has(self, sender: int, group: str, count: int) -> bool:
        """True once so many messages of the stream have come."""
        account = self.accounts.get((sender, group))
        return account is not None and account.count >= count
