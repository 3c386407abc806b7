"""What a guest may start: counted for all that it opens, given back when that ends."""

from __future__ import annotations

import pytest

from quicksilver.live.references.builder import composite, primitive
from quicksilver.live.runtime.allowance import Allowance, Limits
from quicksilver.live.runtime.errors import LimitError, OpenError
from quicksilver.node.samples import resident_bytes
from tests.live.runtime.worlds import World, log, world

__all__ = ["log", "world"]

HELD = primitive("test.holder", Inner=primitive("test.echo"))


def open_as_guest(world: World, allowance: Allowance, reference: object = HELD) -> object:
    return world.call(lambda: world.runtime.open(reference, "guest", allowance=allowance))  # type: ignore[arg-type]


def test_components_are_counted_until_they_end(world: World) -> None:
    allowance = Allowance(Limits(identifiers=("test.*",), components_max=3))
    first = open_as_guest(world, allowance)
    assert allowance.components == 2
    with pytest.raises(OpenError, match=r"the guest may not start 'test\.echo': it may have 3"):
        open_as_guest(world, allowance)
    assert allowance.components == 2  # what was begun is ended, and given back
    assert world.names == ["guest", "guest.inner"]
    world.call(first.close)  # type: ignore[attr-defined]
    assert allowance.components == 0
    assert allowance.refused == 1


def test_what_a_guest_opens_is_a_guest(world: World) -> None:
    allowance = Allowance(Limits(identifiers=("test.holder",)))
    with pytest.raises(OpenError, match=r"parameterized → primitive: .* may start test\.holder"):
        open_as_guest(world, allowance)
    assert allowance.components == 0
    assert world.names == []


def test_a_queue_of_a_guest_has_its_own_limit(world: World) -> None:
    allowance = Allowance(Limits(identifiers=("test.*",), queued_max=5))
    proxy = open_as_guest(world, allowance, primitive("test.queued"))

    def flood() -> int:
        attachment = world.runtime.attach(proxy.endpoint("numbers"))  # type: ignore[attr-defined]
        sent = 0
        while attachment.is_connected:
            attachment.port.value(sent)
            sent += 1
        return sent

    assert world.call(flood) == 5  # its being connected waits as well
    assert allowance.components == 0


def test_a_composite_counts_by_its_parts(world: World) -> None:
    allowance = Allowance(Limits(identifiers=("test.*",), components_max=2))
    parts = composite()
    for name in "abc":
        parts.component(name, primitive("test.echo"))
    with pytest.raises(OpenError, match=r"component\[c\]"):
        open_as_guest(world, allowance, parts.build())
    assert world.names == []


def test_nothing_is_started_in_a_process_that_is_too_large() -> None:
    assert resident_bytes() > 1 << 20
    allowance = Allowance(Limits(identifiers=("*",), process_bytes_max=1 << 20))
    with pytest.raises(LimitError, match="bytes of memory"):
        allowance.admit("test.echo", 0)


def test_libraries_need_to_be_allowed() -> None:
    refused = Allowance(Limits(identifiers=("*",)))
    for identifier in ("0x1", "library.sha00.Echo"):
        with pytest.raises(LimitError, match="may not load libraries"):
            refused.admit(identifier, 0)
    allowed = Allowance(Limits(identifiers=(), libraries=True))
    allowed.admit("0x1", 0)
    with pytest.raises(LimitError, match="it may start nothing"):
        allowed.admit("test.echo", 0)
