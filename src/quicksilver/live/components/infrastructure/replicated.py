"""State machines over a checkpointed channel: what folders, locks and the like share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quicksilver.live.components.infrastructure.guarding import guarded
from quicksilver.live.components.interfaces import CHECKPOINTED, PARTICIPANTS
from quicksilver.live.runtime.context import Context

WAITING_MAX = 10_000
"""What may be asked before the state is here."""


class ChannelLostError(Exception):
    """The channel below has ended."""

    def __str__(self) -> str:
        return "the checkpointed channel below has ended: open the object again"


class NotReadyError(Exception):
    """Too much was asked of an object that has no state yet."""

    def __str__(self) -> str:
        return f"more than {WAITING_MAX} requests wait for the state: wait until it is here"


class Replicated:
    """One replica's end of a channel: opens it, keeps requests until the state is here."""

    def __init__(
        self,
        context: Context,
        *,
        initialize: Callable[[bytes | None], None],
        receive: Callable[[bytes], None],
        capture: Callable[[], bytes],
        participants: Callable[[list[str], str], None] | None = None,
    ) -> None:
        self._context = context
        self._initialize = initialize
        self._receive = receive
        self._capture = capture
        self._participants = participants
        self._port: Any = None
        self._waiting: list[Callable[[], None]] = []
        self.is_ready = False
        """Whether the state is here."""

    async def open(self, channel: Any) -> None:
        """Open the channel, given by its reference, and take part."""
        context = self._context
        proxy = await context.open(channel, "channel")
        runtime = context.runtime
        attachment = runtime.attach(
            proxy.endpoint(CHECKPOINTED),
            {
                "initialize": guarded(context, self._take_state),
                "receive": guarded(context, self._receive),
                "capture": guarded(context, self._give_state),
            },
            name=f"{context.name}.state",
            on_disconnected=lambda: context.fail(ChannelLostError()),
        )
        self._port = attachment.port
        if self._participants is not None:
            runtime.attach(
                proxy.endpoint(PARTICIPANTS),
                {"participants": guarded(context, self._participants)},
                name=f"{context.name}.participants",
            )

    def send(self, update: bytes) -> None:
        """Send an update; the channel keeps it until it can be ordered."""
        if self._port is None:
            self.when_ready(lambda: self._port.send(update))
        else:
            self._port.send(update)

    def when_ready(self, step: Callable[[], None]) -> None:
        """Do something as soon as the state is here; now, if it is."""
        if self.is_ready:
            step()
            return
        if len(self._waiting) >= WAITING_MAX:
            raise NotReadyError
        self._waiting.append(step)

    def _take_state(self, state: bytes | None) -> None:
        self._initialize(state)
        self.is_ready = True
        waiting, self._waiting = self._waiting, []
        for step in waiting:
            step()

    def _give_state(self, ticket: int) -> None:
        self._port.checkpoint(ticket, self._capture())
