"""Channels lead to places, through filters."""

from __future__ import annotations

import msgspec
import pytest

from quicksilver.scopes.dissemination.channels import (
    DEPTH_MAX,
    PLACES_MAX,
    BadChannelError,
    Description,
    External,
    Link,
    Part,
    Split,
    compile_channel,
)
from quicksilver.scopes.dissemination.filters import ALL, Attribute, Facts, Modulo, Tagged

A = Link("tcp", "127.0.0.1:1", "A")
B = Link("tcp", "127.0.0.1:2", "B")
LAN = External("qsm", "campus/news")


def places(channel: Description, number: int = 0) -> list[Link | External]:
    return [place for place, _ in compile_channel(channel)(Facts(number, {}))]


def test_a_channel_is_an_address_or_a_mechanism() -> None:
    assert places(A) == [A]
    assert places(LAN) == [LAN]


def test_filters_from_the_root_down_leave_a_list_of_places() -> None:
    """Figure 3.10: a channel to Z decomposes into channels to A and B, and so on."""
    channel = Split(
        (Part(Modulo(2, 0), A), Part(Modulo(2, 1), Split((Part(ALL, B), Part(ALL, LAN)))))
    )
    assert places(channel, 4) == [A]
    assert places(channel, 5) == [B, LAN]


def test_a_place_gets_a_message_once() -> None:
    """Redundant sub-channels to the same node carry a message once."""
    assert places(Split((Part(ALL, A), Part(Modulo(2, 0), A)))) == [A]


def test_tags_reach_the_filters_below_and_the_place() -> None:
    inner = Split((Part(Attribute("tree", ("1",)), A), Part(Attribute("tree", ("2",)), B)))
    channel = Split((Part(Tagged(ALL, "tree", "2"), inner),))
    assert compile_channel(channel)(Facts(0, {})) == [(B, {"tree": "2"})]


def nested(depth: int) -> Description:
    channel: Description = A
    for _ in range(depth):
        channel = Split((Part(ALL, channel),))
    return channel


@pytest.mark.parametrize(
    "channel",
    [
        Split(()),
        nested(DEPTH_MAX),
        Split(tuple(Part(ALL, A) for _ in range(PLACES_MAX + 1))),
        Split((Part(Modulo(0, 0), A),)),
    ],
)
def test_bad_descriptions_are_refused(channel: Description) -> None:
    with pytest.raises(BadChannelError) as caught:
        compile_channel(channel)
    assert "\n" not in str(caught.value)


def test_channels_travel_as_data() -> None:
    channel = Split((Part(Modulo(2, 0), A), Part(ALL, LAN)))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(channel), type=Description) == channel
