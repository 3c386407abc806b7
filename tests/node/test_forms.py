"""The public face: both forms alike, every name documented, one tree of errors."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import msgspec
import pytest

import quicksilver
import quicksilver.sync
from quicksilver.node import aio, sync
from quicksilver.node.group_base import INNER
from quicksilver.node.messages import View
from quicksilver.wire.ids import NodeId
from tests.node.service import connect, connect_sync, pair, run

OUTSIDE = {"CommandError", "MisuseError", "GroupSpecError", "LineError"}
"""Errors of the commands alone, which print them and end."""


def public(kind: type) -> set[str]:
    inner = INNER | {"core"}
    return {
        name
        for name in dir(kind)
        if not name.startswith("_") and not name.endswith("_on_core") and name not in inner
    }


@pytest.mark.parametrize("name", ["Group", "Node"])
def test_both_forms_have_the_same_names_and_signatures(name: str) -> None:
    """Whoever knows one knows the other: only ``await`` is different."""
    one, other = getattr(aio, name), getattr(sync, name)
    assert public(one) == public(other)
    for each in sorted(public(one)):
        mine, theirs = inspect.getattr_static(one, each), inspect.getattr_static(other, each)
        if inspect.isfunction(mine):
            assert _parameters(mine) == _parameters(theirs), each
        else:
            assert type(mine) is type(theirs), each


def _parameters(function: Any) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default) for each in found]


def test_connect_takes_the_same_arguments_in_both_forms() -> None:
    assert _parameters(aio.connect) == _parameters(sync.connect)


@pytest.mark.parametrize("kind", [aio.Group, aio.Node, sync.Group, sync.Node, View])
def test_everything_public_has_a_docstring(kind: type) -> None:
    """What completion shows, ``help`` explains."""
    for name in sorted(public(kind)):
        found = inspect.getattr_static(kind, name)
        if kind is View and not inspect.isfunction(found):
            continue  # fields: their docstrings are in the source
        assert inspect.getdoc(found), f"{kind.__name__}.{name}"


def test_the_package_shows_what_is_public_and_no_more() -> None:
    assert set(dir(quicksilver)) == {*quicksilver.__all__, "__version__"}
    assert set(dir(quicksilver.sync)) == set(quicksilver.sync.__all__)
    for name in quicksilver.__all__:
        found = getattr(quicksilver, name)
        assert inspect.getdoc(found), name


@pytest.mark.integration
def test_completion_shows_what_users_may_use(gms: str) -> None:
    with connect_sync(gms) as node:
        group = node.join("shown")
        assert set(dir(node)) == public(sync.Node)
        assert set(dir(group)) == public(sync.Group)
        assert "receive" in dir(group)
        assert "sender" not in dir(group)


def test_all_errors_are_of_one_tree() -> None:
    """``except QuicksilverError`` catches whatever this package raises on purpose."""
    found: list[type[BaseException]] = []
    skipped = []
    for module in pkgutil.walk_packages(quicksilver.__path__, "quicksilver."):
        if module.name.endswith("__main__"):
            continue
        try:
            made = importlib.import_module(module.name)
        except ImportError:
            skipped.append(module.name)  # of an extra that is not installed
            continue
        for name, value in vars(made).items():
            is_ours = inspect.isclass(value) and value.__module__ == module.name
            if is_ours and issubclass(value, Exception) and not name.startswith("_"):
                found.append(value)
    stray = [
        error
        for error in found
        if not issubclass(error, quicksilver.QuicksilverError) and error.__name__ not in OUTSIDE
    ]
    assert not stray
    assert quicksilver.BadGroupNameError in found
    assert quicksilver.InterfaceError in found
    assert "quicksilver.node.core" not in skipped


def test_a_timeout_is_also_the_builtin_one_and_says_what_was_waited_for() -> None:
    error = quicksilver.TimedOutError("a message of group 'x'", 0.5)
    assert isinstance(error, TimeoutError)
    assert str(error) == "waited 0.5 s for a message of group 'x'"


class Quote(msgspec.Struct):
    symbol: str


@pytest.mark.integration
def test_nodes_groups_messages_and_views_show_what_they_are(gms: str) -> None:
    """In a debugger, in a log, in a notebook."""

    async def work() -> None:
        node = connect(gms, name="alpha")
        assert repr(node) == f"<Node for {gms}, not connected>"
        async with node, connect(gms, name="beta") as other:
            group = await node.join("prices", Quote, echo=True)
            await other.join("prices", Quote)
            view = await group.wait_members(2)
            assert repr(node) == f"<Node {node.id} 'alpha' of {gms}, in 1 groups>"
            shown = f"<Group 'prices' of Quote, joined, view {view.number}, 2 members>"
            assert repr(group) == shown
            assert view.names == ("alpha", "beta")
            assert view.name_of(other.id) == "beta"
            assert view.name_of(99) == ""
            assert repr(view) == (
                f"<View {view.number} of 'prices', 2 members: alpha ({node.id}), beta ({other.id})>"
            )
            await group.send(Quote("x" * 100))
            text = repr(await group.receive(timeout=10))
            assert text.startswith(f"<Message 0 of node {node.id} to 'prices': Quote(symbol='xx")
            assert len(text) < 140
        assert repr(node).endswith("closed>")
        assert repr(group) == "<Group 'prices' of Quote, joined, closed>"

    run(work())


def test_views_without_names_can_be_shown() -> None:
    """Of whoever makes them by hand, or of many members."""
    members = tuple(map(NodeId, range(1, 12)))
    assert repr(View("g", 3, members)).endswith("? (8) and 3 more>")


@pytest.mark.integration
def test_a_node_may_be_awaited_instead_of_entered(gms: str) -> None:
    """And says what to do if it is neither."""

    async def work() -> None:
        node = connect(gms)
        with pytest.raises(quicksilver.NotConnectedError, match=r"await quicksilver\.connect"):
            await node.join("g")
        node = await connect(gms)
        group = await node.join("g", echo=True)
        await group.send(b"x")
        assert (await group.receive(timeout=10)).payload == b"x"
        await node.close()
        await node.close()

    run(work())


@pytest.mark.integration
def test_what_is_not_of_the_type_goes_to_a_handler(gms: str) -> None:
    """With its bytes and the reason; it is counted in any case."""

    async def work() -> None:
        async with pair(gms) as (sender, receiver):
            group = await receiver.join("mixed", Quote)
            wrong: list[tuple[bytes, str]] = []
            out = await sender.open("mixed")
            typed = await sender.join("other", Quote)
            assert typed.invalid == 0
            await out.send(b"\x01")
            await out.send(msgspec.msgpack.encode(Quote("first")))
            assert (await group.receive(timeout=10)).payload == Quote("first")
            assert group.invalid == 1
            group.on_invalid(lambda message, error: wrong.append((message.payload, str(error))))
            await out.send(b"\x02")
            await out.send(msgspec.msgpack.encode(Quote("second")))
            assert (await group.receive(timeout=10)).payload == Quote("second")
            assert wrong == [(b"\x02", "Expected `object`, got `int`")]
            assert group.invalid == 2

    run(work())
