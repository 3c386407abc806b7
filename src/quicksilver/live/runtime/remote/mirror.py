"""The end in this process that stands for an endpoint of another.

It is attached to the local endpoint like an application: what the endpoint says
becomes frames, frames become what is said to it. When the link ends, so does the
connection, and the endpoint's owner is told as if the other side had parted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quicksilver.live.runtime.attaching import Attachment, attach
from quicksilver.live.runtime.blueprints import signatures_of_type
from quicksilver.live.runtime.endpoints import EndpointReference
from quicksilver.live.runtime.remote.errors import FrameError
from quicksilver.live.runtime.remote.frames import Event
from quicksilver.live.runtime.remote.links import Link
from quicksilver.live.runtime.remote.values import (
    check_wire,
    from_wire,
    is_carried_as_is,
    to_wire,
)

if TYPE_CHECKING:
    from quicksilver.live.runtime.runtime import Runtime


class Mirror:
    """One endpoint of this process, joined to one of another by a link."""

    def __init__(self, runtime: Runtime, endpoint: EndpointReference, link: Link) -> None:
        self._link = link
        self._inputs = signatures_of_type(endpoint.type).inputs
        self._outputs = signatures_of_type(endpoint.type).outputs
        self._as_is = {
            one.event.value.digest: is_carried_as_is(one.event.value)
            for one in (*self._inputs.values(), *self._outputs.values())
        }
        self.misfits = 0
        """Events that came with a name or a value that the endpoint does not have."""
        self._attachment: Attachment = attach(
            runtime,
            endpoint,
            self._send,
            name=f"{endpoint.end}.elsewhere",
            on_disconnected=link.close,
        )

    @property
    def is_connected(self) -> bool:
        """Whether events pass."""
        return self._attachment.is_connected

    def close(self) -> None:
        """Part from the endpoint; its owner is told."""
        self._attachment.close()
        self._link.close()

    def take(self, frame: Event) -> None:
        """Say to the endpoint what came for it; what is not of its type is counted and dropped."""
        try:
            name, values = self._read(frame)
        except FrameError:
            self.misfits += 1
            return
        getattr(self._attachment.port, name)(*values)

    def _read(self, frame: Event) -> tuple[str, list[Any]]:
        signature = self._inputs.get(frame.name)
        if signature is None:
            raise FrameError("no event of that name")
        type_ = signature.event.value
        check_wire(frame.value, type_)
        value = frame.value if self._as_is[type_.digest] else from_wire(frame.value, type_)
        arguments = signature.arguments
        if not arguments:
            return frame.name, []
        if len(arguments) == 1:
            return frame.name, [value]
        given = [value[one.name] for one in arguments if one.name in value]
        if any(one.name not in value for one in arguments[: len(given)]):
            raise FrameError("an argument is left out before one that is not")
        return frame.name, given

    def _send(self, event: str, *values: Any) -> None:
        signature = self._outputs[event]
        arguments = signature.arguments
        value: Any
        if not arguments:
            value = None
        elif len(arguments) == 1:
            value = values[0]
        else:
            value = dict(zip((one.name for one in arguments), values, strict=False))
        if not self._as_is[signature.event.value.digest]:
            value = to_wire(value)
        try:
            self._link.send(Event(event, value))
        except FrameError as error:
            # Leaving it out would break what the endpoint promises.
            self._link.close(f"the event {event} {error}")
