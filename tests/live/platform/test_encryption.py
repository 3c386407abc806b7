"""A cast puts encryption around a plain channel, on every node (2.1.4 F, Example d)."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver.live.components.library import equip
from quicksilver.live.components.platform.encryption import (
    SESSIONS_MAX,
    WINDOW,
    KeyRing,
    NoKeyError,
    Sealer,
    create_key,
)
from quicksilver.live.references.builder import external, primitive, registry
from quicksilver.live.references.check import check
from quicksilver.live.references.standard import CHANNEL
from quicksilver.live.runtime.errors import CastError, OpenError
from quicksilver.live.runtime.executors import ThreadExecutor
from quicksilver.live.runtime.proxies import Proxy
from quicksilver.live.runtime.runtime import Runtime
from tests.live.platform.buses import Bus, BusChannel

KEY = bytes(range(32))
PLAIN = primitive("test.bus-channel")
ENCRYPTED = primitive("test.bus-channel", as_="EncryptedChannel")


@pytest.fixture
def executor() -> Iterator[ThreadExecutor]:
    made = ThreadExecutor()
    yield made
    made.close()


def make_node(executor: ThreadExecutor, bus: Bus, key: bytes = KEY) -> Runtime:
    runtime = Runtime(executor, services={Bus: bus, KeyRing: KeyRing({"default": key})})
    equip(runtime)
    runtime.add_components((BusChannel,))
    return runtime


class User:
    """Somebody at a channel: what was heard, and a way to speak."""

    def __init__(self, executor: ThreadExecutor, runtime: Runtime, proxy: Proxy) -> None:
        self.heard: list[bytes] = []
        self._executor = executor
        self._attachment = executor.call(
            lambda: runtime.attach(
                proxy.endpoint("ReliableChannel"), {"receive": self.heard.append}
            )
        )
        self.proxy = proxy

    def say(self, message: bytes) -> None:
        self._executor.call(lambda: self._attachment.port.send(message))


def test_a_cast_wraps_the_object_on_every_node(executor: ThreadExecutor) -> None:
    bus = Bus()
    users = []
    for _ in range(2):
        runtime = make_node(executor, bus)
        assert check(ENCRYPTED, runtime.catalogue).is_sound
        users.append(
            User(executor, runtime, executor.call(lambda runtime=runtime: runtime.open(ENCRYPTED)))
        )
    users[0].say(b"attack at dawn")
    users[1].say(b"bring an umbrella")
    for user in users:
        assert user.heard == [b"attack at dawn", b"bring an umbrella"]
    assert all(b"dawn" not in one and b"umbrella" not in one for one in bus.passed)
    executor.call(users[0].proxy.close)
    assert len(bus.users) == 1


def test_a_proxy_can_be_cast(executor: ThreadExecutor) -> None:
    bus = Bus()
    runtime = make_node(executor, bus)
    plain = executor.call(lambda: runtime.open(PLAIN))
    wanted = runtime.catalogue.find_type("EncryptedChannel")
    wrapped = executor.call(lambda: plain.cast(wanted))  # type: ignore[arg-type]
    user = User(executor, runtime, wrapped)
    user.say(b"secret")
    assert user.heard == [b"secret"]
    assert bus.passed[0] != b"secret"
    executor.call(wrapped.close)
    assert plain.is_closed
    assert [cell.name for cell in runtime.cells] == []


def test_what_no_wrapper_makes_is_refused(executor: ThreadExecutor) -> None:
    runtime = make_node(executor, Bus())
    proxy = executor.call(lambda: runtime.open(PLAIN))
    with pytest.raises(CastError, match="UnreliableChannel: is missing"):
        executor.call(lambda: proxy.cast(CHANNEL))
    checked = check(primitive("test.bus-channel", as_="Text"), runtime.catalogue)
    assert [one.code for one in checked.findings] == ["bad-cast"]
    assert not proxy.is_closed


def test_a_folder_may_answer_with_what_a_wrapper_makes_right(executor: ThreadExecutor) -> None:
    bus = Bus()
    runtime = make_node(executor, bus)
    runtime.registry["channel"] = PLAIN
    reference = external("channel", "EncryptedChannel", registry())
    assert check(reference, runtime.catalogue, registry=runtime.registry).is_sound
    user = User(executor, runtime, executor.call(lambda: runtime.open(reference)))
    user.say(b"secret")
    assert user.heard == [b"secret"]
    assert bus.passed[0] != b"secret"


def test_who_has_another_key_hears_nothing_and_counts(executor: ThreadExecutor) -> None:
    bus = Bus()
    runtimes = [make_node(executor, bus), make_node(executor, bus, key=bytes(32))]
    users = [
        User(executor, one, executor.call(lambda one=one: one.open(ENCRYPTED))) for one in runtimes
    ]
    users[0].say(b"for us alone")
    executor.call(lambda: bus.send(b"nonsense"))
    executor.call(lambda: bus.send(bus.passed[0]))
    assert users[1].heard == []
    assert users[0].heard == [b"for us alone"]
    dropped = [
        next(cell.instance.dropped for cell in user.proxy.cells if "encryption" in cell.name)
        for user in users
    ]
    assert dropped == [
        {"malformed": 1, "unauthentic": 0, "replayed": 1},
        {"malformed": 1, "unauthentic": 2, "replayed": 0},
    ]


def test_a_missing_key_is_one_clear_error_and_nothing_is_left(executor: ThreadExecutor) -> None:
    bus = Bus()
    runtime = make_node(executor, bus)
    runtime.provide(KeyRing, KeyRing({}))
    with pytest.raises(OpenError, match="'default' is not on this node's key ring; it has: none"):
        executor.call(lambda: runtime.open(ENCRYPTED))
    assert not runtime.cells
    assert bus.users == []


class TestSealing:
    def test_any_changed_byte_is_noticed(self) -> None:
        sealer = Sealer(KEY, "k", bytes(16))
        data = sealer.seal(b"message")
        for place in range(len(data)):
            changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            assert sealer.open(changed) in {"unauthentic", "malformed"}
        assert sealer.open(data) == b"message"

    def test_short_and_foreign_bytes(self) -> None:
        sealer = Sealer(KEY, "k", bytes(16))
        assert sealer.open(b"") == "malformed"
        assert sealer.open(b"\x07" * 100) == "malformed"
        assert sealer.open(b"\x01" * 100) == "unauthentic"

    def test_replays_and_late_messages(self) -> None:
        sender, receiver = Sealer(KEY, "k", bytes(16)), Sealer(KEY, "k", b"r" * 16)
        sealed = [sender.seal(str(number).encode()) for number in range(WINDOW + 10)]
        assert receiver.open(sealed[5]) == b"5"
        assert receiver.open(sealed[3]) == b"3"  # late, but within the window
        assert receiver.open(sealed[3]) == "replayed"
        assert receiver.open(sealed[-1]) == str(WINDOW + 9).encode()
        assert receiver.open(sealed[4]) == "replayed"  # too late to be told from a replay
        assert receiver.open(sealed[-2]) == str(WINDOW + 8).encode()

    def test_a_key_of_another_name_does_not_open(self) -> None:
        assert Sealer(KEY, "b", b"b" * 16).open(Sealer(KEY, "a", bytes(16)).seal(b"x")) == (
            "unauthentic"
        )

    def test_sessions_are_bounded_and_only_made_by_who_has_the_key(self) -> None:
        receiver = Sealer(KEY, "k", b"r" * 16)
        for number in range(SESSIONS_MAX + 5):
            receiver.open(Sealer(bytes(32), "k", number.to_bytes(16, "big")).seal(b""))
        assert not receiver._sessions
        for number in range(SESSIONS_MAX + 5):
            receiver.open(Sealer(KEY, "k", number.to_bytes(16, "big")).seal(b""))
        assert len(receiver._sessions) == SESSIONS_MAX


class TestKeys:
    def test_a_key_is_written_for_its_owner_only(self, tmp_path: Path) -> None:
        path = create_key(tmp_path, "team")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert len(KeyRing.load(tmp_path).find("team")) == 32
        with pytest.raises(FileExistsError):
            create_key(tmp_path, "team")
        with pytest.raises(NoKeyError, match="needs a name"):
            create_key(tmp_path, "../team")

    def test_a_key_that_others_can_read_is_refused(self, tmp_path: Path) -> None:
        path = create_key(tmp_path, "team")
        path.chmod(0o644)
        with pytest.raises(NoKeyError, match="chmod 600"):
            KeyRing.load(tmp_path)

    def test_what_is_no_key(self, tmp_path: Path) -> None:
        path = create_key(tmp_path, "team")
        path.write_bytes(b"\xff" * 300)
        with pytest.raises(NoKeyError, match="64 hexadecimal digits"):
            KeyRing.load(tmp_path)
        with pytest.raises(NoKeyError, match="has 3 bytes"):
            KeyRing({"short": b"abc"})
