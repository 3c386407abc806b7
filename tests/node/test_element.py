"""What of the group communication is in the process of an application behind a controller."""

from __future__ import annotations

import os

from quicksilver.net.shared_ring import RingReader, RingWriter, make_memory, ring_bytes
from quicksilver.node.element import Element, Incoming


def test_what_a_ring_gets_after_the_controller_is_lost_is_for_others() -> None:
    """One that was cut off would else read for as long as somebody writes, and never be told."""
    descriptor, memory = make_memory("test", ring_bytes(4096), is_shared_writable=False)
    os.close(descriptor)
    writer = RingWriter(memory)
    writer.write(1, b"mine", 1, writer.head)
    lost: list[str] = []
    element = Element(
        "nowhere",
        "test",
        on_frame=lambda frame: None,
        on_lost=lost.append,
        on_end=lambda: None,
        on_failure=lost.append,
        timeout_s=1.0,
    )
    incoming = Incoming(RingReader(memory), 0, lambda batch: None, None)
    element._incoming["group"] = incoming
    element.note_lost("it is gone")
    writer.write(1, b"not mine", 1, writer.head)
    assert incoming.has_more()
    assert incoming.reader.read(lambda kind, body: bytes(body)) == b"mine"
    assert not incoming.has_more()
    assert lost == ["it is gone"]
    element._end()
