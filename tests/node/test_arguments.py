"""Mistakes of a caller are told at the call: which argument, and what would be right."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import msgspec
import pytest

import quicksilver
from quicksilver.node.options import NodeOptions, OptionArguments
from tests.node.service import connect, connect_sync, run


class Quote(msgspec.Struct):
    symbol: str
    price: float


BAD_JOINS: list[tuple[dict[str, Any], str]] = [
    ({"name": 5}, "group name 5 is of type int"),
    ({"name": None}, "group name None is of type NoneType"),
    ({"name": ""}, "group name '' is empty"),
    ({"name": "g", "overflow": "blok"}, "overflow: must be 'block', .* did you mean 'block'"),
    ({"name": "g", "queue_bytes": 0}, "queue_bytes: must be a number of bytes, at least 1, not 0"),
    ({"name": "g", "queue_bytes": "1k"}, "queue_bytes: .* not '1k'"),
    ({"name": "g", "behind": "wiat"}, "behind: 'wiat' is no choice"),
    ({"name": "g", "behind": 7}, "behind: must be Wait"),
    ({"name": "g", "empty": "ignore"}, "empty: must be 'wait', 'drop' or 'error'"),
    ({"name": "g", "echo": "yes"}, "echo: must be True or False, not 'yes'"),
    ({"name": "g", "type_": "Quote"}, "type_: must be a type"),
]


@pytest.mark.integration
@pytest.mark.parametrize(("given", "told"), BAD_JOINS)
def test_a_join_that_cannot_work_says_which_argument(
    gms: str, given: dict[str, Any], told: str
) -> None:
    """And the node lives on, as if nothing had been asked."""

    async def work() -> None:
        async with connect(gms) as node:
            with pytest.raises(quicksilver.QuicksilverError, match=told):
                await node.join(**given)
            group = await node.join("fine", echo=True)
            await group.send(b"x")
            assert (await group.receive(timeout=10)).payload == b"x"

    run(work())
    with connect_sync(gms) as node, pytest.raises(quicksilver.QuicksilverError, match=told):
        node.join(**given)


BAD_CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("join_all", ("abc",), {}, "names: must be a list of names, not 'abc'"),
    ("join_all", (["a", "b", "a"],), {}, "names: must have each group once, and 'a'"),
    ("open", ("g",), {"empty": "x"}, "empty: must be"),
    ("flush", (), {"timeout": -1}, "timeout: must be a number of seconds"),
    ("close", (), {"timeout": "5"}, "timeout: must be a number of seconds"),
    ("leave", ("g",), {}, "groups: must be what join and open return, not 'g'"),
]


@pytest.mark.integration
@pytest.mark.parametrize(("verb", "given", "named", "told"), BAD_CALLS)
def test_every_verb_of_a_node_checks_what_it_is_given(
    gms: str, verb: str, given: tuple[Any, ...], named: dict[str, Any], told: str
) -> None:
    """The same words in both forms."""

    async def work() -> None:
        async with connect(gms) as node:
            with pytest.raises(quicksilver.OptionError, match=told):
                await getattr(node, verb)(*given, **named)

    run(work())
    with connect_sync(gms) as node, pytest.raises(quicksilver.OptionError, match=told):
        getattr(node, verb)(*given, **named)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("verb", "given", "told"),
    [
        ("receive", {"timeout": -0.1}, "timeout: "),
        ("receive_batch", {"timeout": float("nan")}, "timeout: "),
        ("wait_members", {"count": -1}, "count: must be a number of members"),
        ("wait_members", {"count": 1, "timeout": "soon"}, "timeout: "),
    ],
)
def test_every_verb_of_a_group_checks_what_it_is_given(
    gms: str, verb: str, given: dict[str, Any], told: str
) -> None:
    """Negative numbers, text, and what is no number."""

    async def work() -> None:
        async with connect(gms) as node:
            group = await node.join("checked")
            with pytest.raises(quicksilver.OptionError, match=told):
                await getattr(group, verb)(**given)

    run(work())
    with connect_sync(gms) as node:
        group = node.join("checked")
        with pytest.raises(quicksilver.OptionError, match=told):
            getattr(group, verb)(**given)


BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"naem": "x"}, "naem: is no option of connect; did you mean 'name'"),
    ({"name": 3}, "name: must be text"),
    ({"name": "a\x1b[2J"}, "name: must be printable"),
    ({"name": "x" * 256}, "name: must be printable, of at most 255 bytes"),
    ({"overflow": "blok"}, "overflow: "),
    ({"empty": None}, "empty: "),
    ({"queue_bytes": -1}, "queue_bytes: "),
    ({"receive_buffer_bytes": 0}, "receive_buffer_bytes: "),
    ({"send_buffer_bytes": 1.5}, "send_buffer_bytes: "),
    ({"connect_timeout_s": 0}, "connect_timeout_s: must be a number of seconds, more than 0"),
    ({"connect_timeout_s": float("inf")}, "connect_timeout_s: "),
    ({"port": 70000}, "port: must be from 0 to 65535"),
    ({"packet_bytes": 10}, "packet_bytes: must be from 576"),
    ({"multicast_ttl": -1}, "multicast_ttl: "),
    ({"switch_interval_s": 0}, "switch_interval_s: "),
    ({"tune_gc": 1}, "tune_gc: must be True or False"),
    ({"on_unconfirmed": 5}, "on_unconfirmed: must be a function"),
    ({"engine": {}}, "engine: must be an EngineConfig"),
]


@pytest.mark.parametrize(("given", "told"), BAD_OPTIONS)
def test_an_option_that_cannot_work_is_told_before_anything_is_opened(
    given: dict[str, Any], told: str
) -> None:
    """Without a GMS: nothing was connected yet."""
    with pytest.raises(quicksilver.OptionError, match=told):
        quicksilver.connect("127.0.0.1:1", **given)
    with pytest.raises(quicksilver.OptionError, match=told):
        quicksilver.sync.connect("127.0.0.1:1", **given)


@pytest.mark.parametrize("address", ["", "host", "host:", ":7401", "host:0", "host:99999", 5])
def test_an_address_that_is_none_is_told_at_once(address: Any) -> None:
    with pytest.raises(quicksilver.AddressError, match="give host:port"):
        quicksilver.connect(address)


def test_the_keyword_arguments_of_connect_are_the_options() -> None:
    """Type checkers see one, the run time uses the other."""
    assert set(get_type_hints(OptionArguments)) == {each.name for each in fields(NodeOptions)}
    options = get_type_hints(NodeOptions)
    for name, hint in get_type_hints(OptionArguments).items():
        assert hint == options[name], name


@pytest.mark.integration
@pytest.mark.parametrize(
    ("type_", "message", "told"),
    [
        (None, "abc", r"text must be encoded, with message.encode\(\)"),
        (None, 5, "it carries bytes, not int; join it with a type"),
        (None, None, "it carries bytes, not NoneType"),
        (Quote, b"abc", "it carries Quote, not bytes"),
        (Quote, {"symbol": "x", "price": 1.0}, "it carries Quote, not dict"),
        (Quote, Quote("x", "cheap"), r"Expected `float`, got `str` - at `\$.price`"),  # type: ignore[arg-type]  # the mistake
        (list[int], [1, "2"], "Expected `int`, got `str`"),
    ],
)
def test_a_message_of_the_wrong_type_is_refused_where_it_is_sent(
    gms: str, type_: Any, message: Any, told: str
) -> None:
    """Not silently, at whoever receives it; and what is right goes through afterwards."""

    async def work() -> None:
        async with connect(gms) as node:
            group = await node.join("types", type_, echo=True)
            with pytest.raises(quicksilver.MessageTypeError, match=told):
                await group.send(message)
            with pytest.raises(TypeError, match=told):
                group.post(message)
            right = {None: b"x", Quote: Quote("x", 1.0)}.get(type_, [1])  # type: ignore[call-overload]  # a type as key
            await group.send(right)
            assert (await group.receive(timeout=10)).payload == right

    run(work())
    with connect_sync(gms) as node:
        group = node.open("types", type_)
        with pytest.raises(quicksilver.MessageTypeError, match=told):
            group.send(message)
