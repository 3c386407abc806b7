"""A GMS killed at any moment goes on, under the numbers that it had."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quicksilver.membership.client import MembershipClient
from quicksilver.membership.events import Member, SubscriptionCompleted, ViewsChanged, Welcomed
from quicksilver.membership.store import SqliteStore
from quicksilver.net.frames import FrameDecoder, encode_frame
from quicksilver.wire.gms import UPDATE_BYTES_MAX
from tests.membership.cluster import Cluster, ViewHistory

pytestmark = [pytest.mark.slow]

SERVER = """
import sys
from pathlib import Path
from quicksilver.membership.gms import GmsOptions, run_gms
run_gms(
    GmsOptions(host="127.0.0.1", port=int(sys.argv[2]), state=Path(sys.argv[1])),
    lambda address: print(address[1], flush=True),
)
"""

# Dies inside a commit: just before or just after SQLite makes it durable.
DYING = """
import os, sys
from quicksilver.membership import store
real = store.SqliteStore.commit
left = int(sys.argv[3])
def commit(self, change):
    global left
    left -= 1
    if left == 0:
        if sys.argv[4] == "after":
            real(self, change)
        os._exit(9)
    real(self, change)
store.SqliteStore.commit = commit
"""


class Gms:
    """A GMS process."""

    def __init__(self, state: Path, port: int = 0, dies: tuple[int, str] | None = None) -> None:
        code = SERVER if dies is None else DYING + SERVER
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(state), str(port), *map(str, dies or ())],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": "src"},
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline() or 0)

    def end(self, number: int = signal.SIGKILL) -> int:
        self.process.send_signal(number)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(timeout=10)


class Node:
    """A client on a blocking socket with a short timeout."""

    def __init__(self, name: str) -> None:
        self.client = MembershipClient(name=name, ip="127.0.0.1", port=9000, receive_buffer_bytes=1)
        self.socket: socket.socket | None = None
        self.nodes: list[tuple[int, bool]] = []
        self.completed: set[int] = set()

    def step(self, port: int, history: ViewHistory) -> None:
        if self.socket is None:
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), timeout=0.5)
            except OSError:
                return
            self.socket.settimeout(0.005)
            self.decoder = FrameDecoder(UPDATE_BYTES_MAX)
            self.client.handle_opened(time.monotonic())
        try:
            self.client.handle_timeout(time.monotonic())
            while (frame := self.client.poll_transmit(time.monotonic())) is not None:
                self.socket.sendall(encode_frame(frame))
            data = self.socket.recv(1 << 16)
        except TimeoutError:
            return
        except OSError:
            data = b""
        if not data:
            self.socket.close()
            self.socket = None
            self.client.handle_closed("closed", time.monotonic())
            return
        for frame in self.decoder.feed(data):
            self.client.handle_frame(frame, time.monotonic())
            while (event := self.client.poll_event()) is not None:
                self.note(event, history)

    def note(self, event: object, history: ViewHistory) -> None:
        match event:
            case Welcomed(node, _, _, resumed):
                self.nodes.append((node, resumed))
            case SubscriptionCompleted(request, _):
                self.completed.add(request)
            case ViewsChanged(regions, groups):
                directory = self.client.directory
                history.check(self.client.cluster or 0, regions, groups, directory)
            case _:
                pass


def drive(nodes: list[Node], port: int, history: ViewHistory, until, limit_s: float = 8.0) -> None:
    end = time.monotonic() + limit_s
    while not until():
        assert time.monotonic() < end, [n.client.state for n in nodes]
        for node in nodes:
            node.step(port, history)


@pytest.mark.integration
def test_kill_9_loses_no_number_and_nobody(tmp_path: Path) -> None:
    """Nodes resume under the same identifiers, and new ones get new numbers."""
    state, history = tmp_path / "gms.db", ViewHistory()
    gms = Gms(state)
    nodes = [Node(f"n{i}") for i in range(3)]
    for round_ in range(3):
        requests = [node.client.subscribe(join=[f"g{round_}", "all"]) for node in nodes]
        if round_:
            # Killed while the requests are on their way, in whatever batch.
            for node in nodes:
                node.step(gms.port, history)
            time.sleep(0.01 * round_)
            gms.end()
            gms = Gms(state, gms.port)
        drive(
            nodes,
            gms.port,
            history,
            lambda requests=requests: all(
                r in n.completed and n.client.state == Member()
                for n, r in zip(nodes, requests, strict=True)
            ),
        )
    identities = [{number for number, _ in node.nodes} for node in nodes]
    assert [len(numbers) for numbers in identities] == [1, 1, 1]
    assert len(set.union(*identities)) == 3
    late = Node("late")
    late.client.subscribe(join=["all"])
    drive([*nodes, late], gms.port, history, lambda: late.completed)
    assert late.nodes[0][0] > max(set.union(*identities))
    assert gms.end(signal.SIGTERM) == 0
    for node in (*nodes, late):
        if node.socket is not None:
            node.socket.close()


@pytest.mark.integration
@pytest.mark.parametrize("dies", [(2, "before"), (2, "after"), (3, "before"), (3, "after")])
def test_death_inside_a_commit_is_invisible(tmp_path: Path, dies: tuple[int, str]) -> None:
    """Either the batch was durable and is resumed, or nobody has heard of it."""
    state, history = tmp_path / "gms.db", ViewHistory()
    gms = Gms(state, dies=dies)
    node = Node("n")
    node.client.subscribe(join=["a"])
    try:
        drive([node], gms.port, history, lambda: node.completed, limit_s=0.5)
        node.client.subscribe(join=["b"])
        drive([node], gms.port, history, lambda: gms.process.poll() is not None, limit_s=5)
    except AssertionError:
        pass
    assert gms.process.wait(timeout=5) == 9
    gms.end()
    gms = Gms(state, gms.port)
    request = node.client.subscribe(join=["c"])
    drive([node], gms.port, history, lambda: request in node.completed)
    assert {g.name for g in node.client.directory.groups.values()} >= {"a", "c"}
    published = [number for number, _ in node.nodes]
    assert published == sorted(published)
    assert node.nodes[-1][1] == (len(set(published)) == 1 and len(published) > 1)
    gms.end(signal.SIGTERM)
    if node.socket is not None:
        node.socket.close()


def test_a_restart_from_a_file_is_like_one_from_memory(tmp_path: Path) -> None:
    """The same history as in memory, through SQLite."""
    path = tmp_path / "gms.db"
    store = SqliteStore(path)
    cluster = Cluster(store=store)
    peers = [cluster.add() for _ in range(4)]
    for at, peer in enumerate(peers):
        peer.subscribe(join=["all", f"g{at % 2}"], open=["other"])
    cluster.settle()
    views = {r.id: r.view for p in peers for r in p.client.directory.regions.values()}
    cluster.stop()
    store.close()
    cluster.store = store = SqliteStore(path)
    cluster.start()
    cluster.settle()
    assert {r.id: r.view for p in peers for r in p.client.directory.regions.values()} == views
    assert [p.client.node for p in peers] == [1, 2, 3, 4]
    cluster.crash(peers[0])
    peers[1].subscribe(leave=["all"])
    cluster.settle()
    store.close()


def test_a_service_without_its_file_stops_before_it_speaks(tmp_path: Path) -> None:
    """A batch that cannot be made durable is not published."""
    store = SqliteStore(tmp_path / "gms.db")
    cluster = Cluster(store=store)
    peer = cluster.add()
    peer.subscribe(join=["a"])
    cluster.pump()
    store.close()
    with pytest.raises(Exception, match="GMS state"):
        cluster.run(1.0)
    assert peer.events == []
