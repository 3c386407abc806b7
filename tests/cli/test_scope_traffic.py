"""One topic across three scopes, in real processes that are killed: nothing is lost or repeated."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from quicksilver import sync
from quicksilver.lab.processes import free_udp_port
from quicksilver.net.faults import parse_faults
from tests.cli.processes import read_event, running
from tests.cli.test_scope import managing

TOPIC = "campus/news"

pytestmark = [pytest.mark.integration, pytest.mark.slow]


class Reader:
    """Collects what one node gets: the numbers of each sender's messages."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.got: dict[str, list[int]] = {}

    def take(self, source: str, sequence: int) -> None:
        self.got.setdefault(source, []).append(sequence)

    def has(self, source: str, count: int) -> bool:
        return len(self.got.get(source, ())) >= count


class Process(Reader):
    """A node in a process of its own: ``quicksilver sub``."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        super().__init__(name)
        self.process = process
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "message":
                self.take(event["source"], event["sequence"])


@contextmanager
def subscribing(manager: str, name: str, faults: str = "") -> Iterator[Process]:
    arguments = ("--gms", manager, "--name", name, "--interface", "lo", "--json")
    if faults:
        arguments += ("--faults", faults)
    with running("sub", TOPIC, *arguments) as process:
        assert read_event(process)["event"] == "ready"
        yield Process(name, process)


class Sender(Reader):
    """A node in this process, which sends and receives."""

    def __init__(self, name: str, node: sync.Node) -> None:
        super().__init__(name)
        self.node = node
        self.source = node.name
        self.sent = 0
        self.group = node.join(TOPIC)
        self.group.on_message(lambda message: self.take(message.source, message.sequence))

    def send(self, count: int) -> None:
        for _ in range(count):
            self.group.send(b"news %d" % self.sent)
            self.sent += 1


def until(condition: Callable[[], bool], what: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.01)


def check_everything(senders: list[Sender], readers: list[Reader]) -> None:
    """Everybody gets every message of everybody else once, and each sender's in order."""

    def is_complete() -> bool:
        return all(
            reader.has(sender.source, sender.sent)
            for reader in readers
            for sender in senders
            if reader is not sender
        )

    def describe() -> object:
        counts = {r.name: {s: len(numbers) for s, numbers in r.got.items()} for r in readers}
        return {"sent": [sender.sent for sender in senders], "got": counts}

    until(is_complete, describe)
    for reader in readers:
        for sender in senders:
            if reader is not sender:
                assert reader.got[sender.source] == list(range(sender.sent)), reader.name


class Lan(NamedTuple):
    """How one network works."""

    choices: tuple[str, ...]
    faults: str = ""


def make_lans(kind: str) -> tuple[tuple[str, ...], dict[str, Lan]]:
    """Return how the campus and its networks work."""
    if kind == "channels alone":
        return (), {"lan1": Lan(("--policy", "tree:2")), "lan2": Lan(("--policy", "chain"))}
    range_ = f"239.192.78.0/24:{free_udp_port()}"
    return ("--recovery", "star"), {
        "lan1": Lan(("--policy", "tree:2", "--recovery", "ring")),
        "lan2": Lan(
            ("--policy", "multicast", "--multicast", range_, "--recovery", "tree:3"), "loss=1%"
        ),
    }


@pytest.mark.parametrize("kind", ["channels alone", "recovery everywhere, multicast that loses"])
def test_a_topic_outlives_managers_and_nodes_that_forward(tmp_path: Path, kind: str) -> None:
    """Dissertation 3.2.10: a domain goes on while its manager is away; forwarders are replaced."""
    campus_choices, lans = make_lans(kind)
    with ExitStack() as stack:
        campus, _ = stack.enter_context(managing("campus", *campus_choices))
        managers: dict[str, str] = {}
        started: dict[str, subprocess.Popen[str]] = {}
        choices = {
            name: (*lan.choices, "--owner", campus, "--state", str(tmp_path / f"{name}.db"))
            for name, lan in lans.items()
        }
        senders: list[Sender] = []
        processes: list[Process] = []
        for name, lan in lans.items():
            made = stack.enter_context(managing(f"campus/{name}", *choices[name]))
            managers[name], started[name] = made
            plan = parse_faults(lan.faults) if lan.faults else None
            node = sync.connect(managers[name], name="s", interface="lo", faults=plan)
            senders.append(Sender(name, stack.enter_context(node)))
            processes += [
                stack.enter_context(subscribing(managers[name], each, lan.faults)) for each in "ab"
            ]
        readers: list[Reader] = [*senders, *processes]

        for sender in senders:
            sender.send(500)
        check_everything(senders, readers)
        for sender in senders:
            sender.node.flush(timeout=20)

        # The manager of a network dies: its nodes go on without it.
        started["lan1"].kill()
        started["lan1"].wait()
        for sender in senders:
            sender.send(500)
        check_everything(senders, readers)

        # It comes back from its file, and nothing moves.
        again = ("--listen", managers["lan1"])
        stack.enter_context(managing("campus/lan1", *choices["lan1"], *again))
        late = stack.enter_context(subscribing(managers["lan1"], "late"))
        for sender in senders:
            sender.send(500)
        check_everything(senders, readers)
        until(
            lambda: all(s.sent - 1 in late.got.get(s.source, ()) for s in senders),
            lambda: late.got,
        )
        for numbers in late.got.values():
            assert numbers == list(range(numbers[0], numbers[-1] + 1))

        # A node that forwards dies while both send, in each network.
        for victim in (processes[0], processes[2]):
            for _ in range(20):
                for sender in senders:
                    sender.send(20)
                if victim.process.poll() is None:
                    victim.process.kill()
                time.sleep(0.01)
            readers.remove(victim)
            check_everything(senders, readers)
        for sender in senders:
            sender.node.flush(timeout=20)
            sender.node.close(timeout=0)
