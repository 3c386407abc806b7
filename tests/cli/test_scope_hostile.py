"""Bad input to real managers and nodes: it is refused, named and contained."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from random import Random

import pytest

from quicksilver import sync
from quicksilver.net.frames import encode_frame
from quicksilver.scopes.dissemination import frames
from quicksilver.scopes.dissemination.frames import Carry, OpenChannel
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.routing import Channel, Entry
from tests.cli.test_scope import Talk, managing
from tests.node.service import connect_sync, take_sync
from tests.scopes.management.test_lies import Liar, lie

pytestmark = [pytest.mark.integration, pytest.mark.slow]


class Log:
    """What a process says on its standard error."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self._has_more = threading.Condition()
        self._process = process
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._has_more:
                self.lines.append(line)
                self._has_more.notify_all()

    def wait(self, words: str, seconds: float = 20.0) -> None:
        """Wait until a line has some words."""
        with self._has_more:
            found = self._has_more.wait_for(
                lambda: any(words in line for line in self.lines), timeout=seconds
            )
        assert found, "".join(self.lines)


def free_ports(count: int) -> list[int]:
    """Return TCP ports that nobody has, all different."""
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in taken]


@contextmanager
def pair(
    manager: str, topic: str
) -> Iterator[tuple[sync.Node, sync.Group[bytes], sync.Group[bytes]]]:
    """Two honest nodes: one publishes to a topic, the other subscribes."""
    with connect_sync(manager) as one, connect_sync(manager) as two:
        group = two.join(topic)
        yield one, one.open(topic), group


def check_works(manager: str, topic: str) -> None:
    with pair(manager, topic) as (one, sending, receiving):
        sending.send(b"x")
        one.flush(timeout=20)
        assert take_sync(receiving, 1)[0].payload == b"x"


@pytest.mark.parametrize("length", [2, 3])
def test_scopes_that_own_each_other_are_told_so_and_go_on(length: int) -> None:
    """A cycle of owners is found whatever order they start in; what is local works."""
    ports = free_ports(length)
    names = [f"s{number}" for number in range(length)]
    started = []
    with ExitStack() as stack:
        for number, name in enumerate(names):
            owner = f"127.0.0.1:{ports[(number + 1) % length]}"
            listen = f"127.0.0.1:{ports[number]}"
            options = ("--listen", listen, "--owner", owner, "--recovery", "ring")
            started.append(stack.enter_context(managing(name, *options)))
        logs = [Log(process) for _, process in started]
        problems = ("cannot own its owner", "itself")
        deadline = time.monotonic() + 30
        while not any(p in line for log in logs for line in list(log.lines) for p in problems):
            assert time.monotonic() < deadline, [log.lines for log in logs]
            time.sleep(0.05)
        for (address, _), name in zip(started, names, strict=True):
            check_works(address, f"{name}/t")


def test_of_two_owners_with_one_name_one_is_refused_and_named() -> None:
    """Else a topic would have two roots."""
    with (
        managing("campus", "--recovery", "ring") as (first, _),
        managing("campus", "--recovery", "ring") as (second, _),
        managing("lan", "--owner", first, "--owner", second, "--recovery", "ring") as (
            lan,
            process,
        ),
    ):
        Log(process).wait("another owner is named 'campus', and topics have one root")
        check_works(lan, "campus/t")


def test_another_version_is_told_which_one_is_spoken() -> None:
    with managing("lan") as (address, _):
        talk = Talk(address)
        version = say.PROTOCOL_VERSION - 1
        hello = say.Register(version, "lan/old", "127.0.0.1:1", is_member=True, grace_s=1.0)
        talk.say(say.encode(hello))
        answer = say.parse(talk.hear())
        assert isinstance(answer, say.Refused)
        assert f"version {version + 1} of the protocol, not {version}" in answer.reason
        assert talk.is_over()
        talk.close()
        check_works(address, "lan/t")


def account(address: str) -> list[say.Row]:
    """Return what a manager tells of its scope, to anybody who asks."""
    talk = Talk(address)
    talk.say(say.encode(say.Inspect("", 0)))
    told = say.parse(talk.hear())
    talk.close()
    assert isinstance(told, say.Inspected)
    return list(told.rows)


def addresses_below(manager: str) -> list[str]:
    return [row.facts["address"] for row in account(manager) if row.kind == "member"]


def shout(address: str, data: list[bytes]) -> None:
    """Say things on a connection of its own, whether or not they are taken."""
    with suppress(OSError):
        talk = Talk(address)
        with suppress(OSError):
            for each in data:
                talk._socket.sendall(each)
        talk.close()


@pytest.mark.parametrize("recovery", ["none", "ring"])
def test_lies_and_noise_at_every_port_leave_others_alone(recovery: str) -> None:
    """Liars that come as members, as managers, as sources of channels, and plain noise."""
    rng = Random(recovery)
    with (
        managing("lan", "--recovery", recovery) as (address, process),
        pair(address, "lan/honest") as (node, sending, receiving),
    ):
        ports = [address, *addresses_below(address)]
        assert len(ports) == 3
        stop = threading.Event()

        def lie_on() -> None:
            for seed in range(400):
                if stop.is_set():
                    return
                liar = Liar(seed, "lan")
                lies = [encode_frame(say.encode(liar.message())) for _ in range(20)]
                register = say.Register(
                    say.PROTOCOL_VERSION, f"lan/liar{seed}", "127.0.0.1:9", True, 1.0
                )
                member = [encode_frame(say.encode(register)), *lies]
                links = [encode_frame(frames.encode(lie(rng))) for _ in range(20)]
                noise = [rng.randbytes(rng.choice([1, 5, 300])) for _ in range(5)]
                for port in ports:
                    shout(port, rng.choice([lies, member, links, noise]))

        thread = threading.Thread(target=lie_on)
        thread.start()
        for number in range(300):
            sending.send(b"%d" % number)
            assert receiving.receive(timeout=20).payload == b"%d" % number
        stop.set()
        thread.join()
        node.flush(timeout=30)
        assert process.poll() is None
        check_works(address, "lan/after")


def test_an_owner_that_lies_is_contained() -> None:
    """It may order what it likes: topics of the scope's own go on, and so does the manager."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        heard = threading.Event()

        def own() -> None:
            for seed in range(1000):
                try:
                    conn, _ = server.accept()
                except OSError:
                    return
                liar = Liar(seed, "lan")
                first: list[say.Message] = [say.Registered("campus", ())]
                first += [say.PostAgent(liar.post()) for _ in range(20)]
                for message in first + [liar.message() for _ in range(200)]:
                    with suppress(OSError):
                        conn.sendall(encode_frame(say.encode(message)))
                heard.set()
                conn.close()

        thread = threading.Thread(target=own)
        thread.start()
        owner = f"127.0.0.1:{server.getsockname()[1]}"
        with managing("lan", "--owner", owner, "--recovery", "ring") as (address, process):
            log = Log(process)
            with pair(address, "lan/honest") as (node, sending, receiving):
                assert heard.wait(20)
                for number in range(200):
                    sending.send(b"%d" % number)
                    assert receiving.receive(timeout=20).payload == b"%d" % number
                node.flush(timeout=30)
            log.wait("posted an agent that it may not")
            assert process.poll() is None
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_forged_record_or_sender_is_dropped() -> None:
    """Somebody who names a channel that ends at a node still cannot speak for another scope."""
    with managing("lan") as (address, _), pair(address, "lan/t") as (one, sending, receiving):
        sending.send(b"true")
        assert take_sync(receiving, 1)[0].payload == b"true"
        reader = next(port for port in addresses_below(address) if reads(port, "lan/t"))
        channel = Channel("lan", (one.name,), (name_at(reader),), "lan/t", one.name)
        sender = Sender("lan", "lan/nobody", 1)
        for record in ((), (Entry("campus", "a", "b"),), (Entry("lan", "x", "y"),) * 3):
            packet = Packet("lan/t", sender, 0, 0, 0, record, {}, (b"forged",))
            said = [OpenChannel(channel), Carry(channel, packet)]
            shout(reader, [encode_frame(frames.encode(each)) for each in said])
        sending.send(b"true again")
        assert take_sync(receiving, 1)[0].payload == b"true again"


def name_at(address: str) -> str:
    return next(row.name for row in account(address) if row.kind == "scope")


def reads(address: str, topic: str) -> bool:
    rows = [row for row in account(address) if row.kind == "topic" and row.name == topic]
    return any(row.facts["subscribers"] == "1" for row in rows)
