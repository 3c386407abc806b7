"""Endpoints of two runtimes joined through a socket: events, types, tokens, garbage, endings."""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from quicksilver.live.references.builder import primitive
from quicksilver.live.references.model import Reference
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.folders import Registry
from quicksilver.live.runtime.proxies import Proxy
from quicksilver.live.runtime.remote.addresses import (
    BadAddressError,
    PublishError,
    RemoteError,
    parse_address,
)
from quicksilver.live.runtime.remote.frames import FRAME_BYTES_MAX, Event, Hello, Ready, encode
from quicksilver.live.runtime.remote.joining import RemoteConnection, join
from quicksilver.live.runtime.remote.links import LinkSettings
from quicksilver.live.runtime.remote.publishing import Publisher
from quicksilver.live.types.declare import endpoint, live_object
from quicksilver.live.types.encoding import encode_type
from tests.live.runtime.worlds import Numbers, World, log, make_threads, world

__all__ = ["log", "world"]


class Words(Protocol):
    def value(self, word: str) -> None: ...


@component("test.talker")
@live_object
class Talker:
    """says words, not numbers"""

    numbers = endpoint(Words, Words)

    def numbers_value(self, word: str) -> None: ...


@component("test.listener")
@live_object
class Listener:
    """keeps the numbers it is given, and whether anybody is there"""

    numbers = endpoint(Numbers, Numbers)

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.states: list[str] = []

    def numbers_value(self, number: int) -> None:
        self.heard.append(number)

    def numbers_connected(self) -> None:
        self.states.append("connected")

    def numbers_disconnected(self) -> None:
        self.states.append("disconnected")


class Pair:
    """A world with a publisher, and another world that joins it."""

    def __init__(self, here: World, there: World, place: str) -> None:
        self.here, self.there = here, there
        for one in (here, there):
            one.runtime.add_components((Talker, Listener))
        self.publisher: Publisher = here.call(lambda: Publisher(here.runtime, place))
        self.echo = here.open(primitive("test.echo"))
        self.address: str = here.call(lambda: self.publisher.publish(self.echo.endpoint("numbers")))
        self.listener = there.open(primitive("test.listener"), "listener")

    @property
    def at(self) -> Listener:
        made: Listener = self.listener.cells[0].instance
        return made

    def join(
        self, proxy: Proxy | None = None, settings: LinkSettings | None = None
    ) -> RemoteConnection:
        mine = proxy if proxy is not None else self.listener
        made: RemoteConnection = self.there.call(
            lambda: join(
                self.there.runtime, mine.endpoint("numbers"), self.address, settings=settings
            )
        )
        return made

    def wait(self, condition: Callable[[], bool]) -> None:
        """Let both run until something holds."""
        for _ in range(20_000):
            if condition():
                return
            self.here.settle()
            self.there.settle()
        raise AssertionError(f"never: {self.at.heard[-3:]}, {self.at.states}, {self.here.told}")


@pytest.fixture
def other() -> Iterator[World]:
    yield from make_threads()


@pytest.fixture(params=["tcp", "unix"])
def pair(
    request: pytest.FixtureRequest, world: World, other: World, tmp_path: Path
) -> Iterator[Pair]:
    place = "live+tcp://127.0.0.1:0" if request.param == "tcp" else f"live+unix:{tmp_path}/socket"
    made = Pair(world, other, place)
    yield made
    world.call(made.publisher.close)


def say(pair: Pair, number: int) -> None:
    pair.there.call(lambda: pair.at.numbers.value(number))


def test_events_pass_both_ways_and_both_are_told(pair: Pair, log: list[str]) -> None:
    connection = pair.join()
    for number in range(100, 200):
        say(pair, number)
    pair.wait(lambda: len(pair.at.heard) == 100)
    assert pair.at.heard == list(range(100, 200))
    assert log == ["echo connected"]
    pair.there.call(connection.close)
    pair.wait(lambda: log[-1] == "echo disconnected")
    assert pair.at.states == ["connected", "disconnected"]
    assert not connection.is_open
    pair.wait(lambda: pair.publisher.connections == 0)


def test_an_endpoint_can_be_joined_again_but_not_twice_at_once(pair: Pair) -> None:
    connection = pair.join()
    second = pair.there.open(primitive("test.listener"), "second")
    say(pair, 1)
    pair.wait(lambda: pair.at.heard == [1])
    with pytest.raises(RemoteError, match="somebody is connected already"):
        pair.join(second)
    pair.there.call(connection.close)
    pair.wait(lambda: pair.publisher.connections == 0)
    assert pair.join(second).is_open


def test_types_that_do_not_match_are_told_apart_before_anything_flows(
    pair: Pair, log: list[str]
) -> None:
    talker = pair.there.open(primitive("test.talker"))
    with pytest.raises(RemoteError, match="do not match: outgoing event value: int is not"):
        pair.join(talker)
    assert pair.publisher.refusals.type == 1
    assert log == []
    pair.wait(lambda: pair.publisher.connections == 0)


def test_a_wrong_token_is_refused(pair: Pair) -> None:
    place = pair.address.partition("#")[0]
    pair.address = f"{place}#{'x' * 43}"
    with pytest.raises(RemoteError, match="nothing is published under this token") as caught:
        pair.join()
    assert "xxxx" not in str(caught.value)
    assert pair.publisher.refusals.token == 1


def test_a_withdrawn_endpoint_cannot_be_joined(pair: Pair) -> None:
    pair.here.call(lambda: pair.publisher.withdraw(pair.address))
    with pytest.raises(RemoteError, match="nothing is published"):
        pair.join()


def test_a_proxy_that_ends_parts_from_the_other_process(pair: Pair) -> None:
    connection = pair.join()
    reasons: list[str] = []
    pair.there.call(lambda: connection.when_closed(reasons.append))
    pair.here.call(pair.echo.close)
    pair.wait(lambda: pair.at.states == ["connected", "disconnected"])
    assert reasons == ["the other side ended it: it is done"]


def test_a_component_that_fails_parts_from_the_other_process(pair: Pair) -> None:
    pair.join()
    say(pair, 13)
    pair.wait(lambda: pair.at.states == ["connected", "disconnected"])
    assert [str(one.cause) for one in pair.here.told] == ["unlucky"]


def test_nobody_there(world: World) -> None:
    listener = world.open(primitive("test.echo"))
    for address in ("live+tcp://127.0.0.1:1#", "live+unix:/nonexistent/socket#"):
        with pytest.raises(RemoteError, match="cannot be reached"):
            world.call(
                lambda a=address: join(  # type: ignore[misc]
                    world.runtime, listener.endpoint("numbers"), a + "t" * 40
                )
            )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "live+tcp://h:1",
        "live+tcp://h:99999#" + "t" * 40,
        "live+tcp://h:1#short",
        "http://h:1#" + "t" * 40,
        "live+unix:relative#" + "t" * 40,
        "x" * 5000,
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(BadAddressError) as caught:
        parse_address(text)
    assert len(str(caught.value)) < 300
    assert "t" * 40 not in str(caught.value)


def test_a_unix_socket_is_its_owners_alone_and_leftovers_are_replaced(
    world: World, tmp_path: Path
) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    publisher = world.call(lambda: Publisher(world.runtime, f"live+unix:{path}"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(PublishError, match="in use"):
        world.call(lambda: Publisher(world.runtime, f"live+unix:{path}"))
    while publisher.connections:  # the one that asked whether somebody listens
        world.settle()
    world.call(publisher.close)
    assert not path.exists()
    path.write_text("precious", encoding="utf-8")
    with pytest.raises(PublishError, match="in use"):
        world.call(lambda: Publisher(world.runtime, f"live+unix:{path}"))
    assert path.read_text(encoding="utf-8") == "precious"


# --- hostile peers -------------------------------------------------------------------


class Stranger:
    """A bare socket that says what it likes."""

    def __init__(self, address: str) -> None:
        at, self.token = parse_address(address)
        self.socket = socket.socket(at.family, socket.SOCK_STREAM)
        self.socket.settimeout(20)
        self.socket.connect(at.for_socket)

    def hear(self) -> bytes:
        """Everything until the other side ends it."""
        heard = b""
        try:
            while part := self.socket.recv(65536):
                heard += part
        except ConnectionResetError:
            pass  # what was said to it was not all read
        self.socket.close()
        return heard

    def enter(self, pair: Pair) -> None:
        """Join as a listener would."""
        type_ = pair.listener.type.by_name["numbers"]
        self.socket.sendall(encode(Hello(1, self.token, encode_type(type_))))
        self.socket.recv(65536)
        self.socket.sendall(encode(Ready()))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (struct.pack("<I", FRAME_BYTES_MAX + 1), b""),
        (encode(Hello(9, "t", b"")), b"speaks version 1, not 9"),
        (encode(Event("value", 3)), b"not to be said here"),
        (b"GET / HTTP/1.1\r\n\r\n", b""),
    ],
)
def test_garbage_ends_the_connection_and_nothing_else(pair: Pair, data: bytes, says: bytes) -> None:
    stranger = Stranger(pair.address)
    stranger.socket.sendall(data)
    assert says in stranger.hear()
    pair.wait(lambda: pair.publisher.connections == 0)
    assert pair.join().is_open


def test_frames_that_are_no_messages_are_dropped(pair: Pair) -> None:
    stranger = Stranger(pair.address)
    junk = os.urandom(100)
    stranger.socket.sendall(struct.pack("<I", len(junk)) + junk)
    stranger.enter(pair)
    pair.wait(lambda: pair.echo.endpoint("numbers").is_connected)
    for frame in (Event("nonsense", 1), Event("value", "text"), Event("value", 5)):
        stranger.socket.sendall(encode(frame))
    heard = stranger.socket.recv(1000)
    while len(heard) < len(encode(Ready()) + encode(Event("value", 5))):
        heard += stranger.socket.recv(1000)
    assert heard == encode(Ready()) + encode(Event("value", 5))
    (caller,) = pair.publisher._callers
    assert caller._link.malformed == 1
    assert caller._mirror is not None
    assert caller._mirror.misfits == 2
    stranger.socket.close()
    pair.wait(lambda: not pair.echo.endpoint("numbers").is_connected)


def test_a_type_that_cannot_be_read(pair: Pair) -> None:
    stranger = Stranger(pair.address)
    stranger.socket.sendall(encode(Hello(1, stranger.token, b"[" * 5000)))
    assert b"the type cannot be read" in stranger.hear()
    assert pair.publisher.refusals.malformed == 1


def test_who_says_nothing_is_not_waited_for(world: World) -> None:
    settings = LinkSettings(handshake_s=0.05)
    publisher = world.call(
        lambda: Publisher(world.runtime, "live+tcp://127.0.0.1:0", settings=settings)
    )
    stranger = Stranger(f"{publisher.place}#{'t' * 40}")
    assert b"that took too long" in stranger.hear()
    assert publisher.refusals.late == 1
    world.call(publisher.close)


def test_who_does_not_read_is_parted_from(world: World) -> None:
    """What waits for a slow reader is bounded; the endpoint's owner is told."""
    world.runtime.add_components((Listener,))
    settings = LinkSettings(queue_bytes_max=100_000)
    publisher = world.call(
        lambda: Publisher(world.runtime, "live+tcp://127.0.0.1:0", settings=settings)
    )
    proxy = world.open(primitive("test.listener"))
    address = world.call(lambda: publisher.publish(proxy.endpoint("numbers")))
    listener: Listener = proxy.cells[0].instance
    stranger = Stranger(address)
    type_ = proxy.type.by_name["numbers"]
    stranger.socket.sendall(encode(Hello(1, stranger.token, encode_type(type_))))
    stranger.socket.recv(65536)
    stranger.socket.sendall(encode(Ready()))
    while listener.states != ["connected"]:
        world.settle()

    def flood() -> None:
        for number in range(10_000):
            listener.numbers.value(number)

    while listener.states == ["connected"]:
        world.call(flood)
    assert listener.states == ["connected", "disconnected"]
    stranger.socket.close()
    world.call(publisher.close)


# --- values --------------------------------------------------------------------------


def test_references_travel_as_references(world: World, other: World) -> None:
    """A folder of another process answers with a recipe that is followed here."""
    kept: Reference = primitive("test.echo", name="from elsewhere")
    world.runtime.registry["it"] = kept
    folder = world.open(primitive("0x2"))
    publisher = world.call(lambda: Publisher(world.runtime, "live+tcp://127.0.0.1:0"))
    address = world.call(lambda: publisher.publish(folder.endpoint("folder")))
    got: list[object] = []

    @component("test.asker")
    @live_object
    class Asker:
        """asks a folder"""

        folder = endpoint(_answers(), _requests())

        def folder_item(self, name: str, reference: object) -> None:
            got.append(reference)

        def folder_missing(self, name: str) -> None:
            got.append(name)

        def folder_connected(self) -> None:
            self.folder.get("it")
            self.folder.get("nothing")

    other.runtime.add_components((Asker,))
    asker = other.open(primitive("test.asker"))
    other.call(lambda: join(other.runtime, asker.endpoint("folder"), address))
    while len(got) < 2:
        world.settle()
        other.settle()
    assert got == [kept, "nothing"]
    world.call(publisher.close)


def _answers() -> object:
    return Registry.folder.outputs  # type: ignore[attr-defined]  # on the class it is the declaration


def _requests() -> object:
    return Registry.folder.inputs  # type: ignore[attr-defined]  # as above
