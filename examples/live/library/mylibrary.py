"""A library of one's own, as the dissertation's mylibrary.dll (Code 2.3 and 2.5)."""

from typing import Protocol

from quicksilver.live.components.interfaces import (
    CHECKPOINTED,
    CheckpointedDeliveries,
    CheckpointedRequests,
    UnreliableChannel,
)
from quicksilver.live.references.builder import primitive
from quicksilver.live.references.standard import FOLDER_ENDPOINT
from quicksilver.live.runtime.context import Context
from quicksilver.live.runtime.folders import FolderRequests
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref


class Additions(Protocol):
    """What the counter takes."""

    def add(self, amount: int) -> None:
        """Add to the number."""


class Totals(Protocol):
    """What the counter gives."""

    def total(self, value: int) -> None:
        """Take the number, after each addition of anybody."""


@live_object(title="MyType1")
class MyProtocol1:
    """a number that all who use it add to, in one order"""

    context: Context
    counter = endpoint(
        Additions, Totals, provides=[("delivery", "total and exactly once")], name="Counter"
    )
    channel = endpoint(
        CheckpointedDeliveries,
        CheckpointedRequests,
        requires=[("delivery", "exactly once and total")],
        name=CHECKPOINTED,
        inner=True,
    )

    def __init__(self) -> None:
        self._total = 0

    async def start(self) -> None:
        """Open the channel that all proxies share."""
        shared = primitive("quicksilver.checkpointed-channel", group="mystuff/myprotocol1")
        await self.context.attach(self.channel, shared, "channel")

    def counter_add(self, amount: int) -> None:
        self.channel.send(str(amount).encode())

    def channel_initialize(self, state: bytes | None) -> None:
        self._total = int(state or b"0")
        self.counter.total(self._total)

    def channel_receive(self, message: bytes) -> None:
        self._total += int(message)
        self.counter.total(self._total)

    def channel_capture(self, ticket: int) -> None:
        self.channel.checkpoint(ticket, str(self._total).encode())


class ChannelAnswers(Protocol):
    """What a folder of channels answers."""

    def item(self, name: str, reference: Ref[UnreliableChannel]) -> None:
        """Say what is kept under a name."""

    def missing(self, name: str) -> None:
        """Say that nothing is."""


@live_object(title="Folder")
class MyPlatform:
    """a folder of the channels of one local network, which its controller's address tells"""

    folder = endpoint(FolderRequests, ChannelAnswers, name=FOLDER_ENDPOINT)

    def __init__(self, LocalController: Given[str]) -> None:  # noqa: N803  # as Code 2.5 says it
        self._address = LocalController.partition("://")[2]

    def folder_get(self, name: str) -> None:
        if name == "MyChannel":
            self.folder.item(name, primitive("quicksilver.udp-channel", address=self._address))
        else:
            self.folder.missing(name)
