"""The synchronous form, on real sockets."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import defaultdict

import pytest

from quicksilver import (
    Batch,
    Burst,
    ClosedError,
    NodeOptions,
    NotConnectedError,
    TimedOutError,
    sync,
)
from tests.node.networks import Network
from tests.node.service import connect, connect_sync, run, take_sync

pytestmark = pytest.mark.integration


def test_a_script_sends_and_receives(network: Network) -> None:
    """Blocking calls, a timeout that ends the loop."""
    with connect_sync(network.address) as sender, connect_sync(network.address) as receiver:
        group = receiver.join(network.name("script"))
        out = sender.open(network.name("script"))
        network.wait_members_sync(out, 1)
        for number in range(100):
            out.send(b"%d" % number)
        sender.flush(timeout=5)
        got = [m.payload for m in group.messages(timeout=0.5)]
        assert got == [b"%d" % n for n in range(100)]
        with pytest.raises(TimedOutError, match="a message of group"):
            group.receive_batch(timeout=0.05)


def test_a_node_needs_no_with(gms: str) -> None:
    """It is connected when ``connect`` returns, and entering it then changes nothing."""
    node = connect_sync(gms)
    try:
        assert node.id
        with node as same:
            assert same is node
            assert node.join("without").is_member
        with pytest.raises(ClosedError), node:
            pass
    finally:
        node.close()


FORGETFUL = """
import sys
from quicksilver import sync
group = sync.connect(sys.argv[1], interface="lo").open("forgotten")
group.wait_members(1)
for number in range(500):
    group.send(b"%d" % number)
"""


def test_a_program_that_forgets_its_node_loses_nothing(gms: str) -> None:
    """At the end of the program the node is closed: what was sent arrives, and it says goodbye."""
    with connect_sync(gms) as receiver:
        group = receiver.join("forgotten")
        subprocess.run([sys.executable, "-c", FORGETFUL, gms], check=True, timeout=30)
        assert [m.payload for m in take_sync(group, 500)] == [b"%d" % n for n in range(500)]


def test_a_node_that_was_never_connected_says_how(gms: str) -> None:
    """The constructor alone connects nothing, in either form; closing is harmless."""
    node = sync.Node(gms, NodeOptions(interface="lo"))
    for use in (lambda: node.join("a"), lambda: node.open("a"), node.flush, node.stats):
        with pytest.raises(NotConnectedError, match=r"`with quicksilver\.sync\.connect\("):
            use()
    node.close()

    async def forget() -> None:
        with pytest.raises(NotConnectedError, match="`async with quicksilver"):
            await connect(gms).join("a")

    run(forget())


def test_threads_may_share_a_node_and_a_group(network: Network) -> None:
    """Each thread's messages stay in order, and none is lost, in one or two groups."""
    with connect_sync(network.address) as sender, connect_sync(network.address) as receiver:
        names = [network.name("threads-a"), network.name("threads-b")]
        groups = receiver.join_all(names)
        outs = sender.open_all(names)
        network.wait_members_sync(outs[0], 1)
        each = 3000

        def pump(which: int) -> None:
            for number in range(each):
                outs[number % 2].send(b"%d %d" % (which, number))

        threads = [threading.Thread(target=pump, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        got = [take_sync(group, 4 * each // 2) for group in groups]
        for thread in threads:
            thread.join()
        for messages in got:
            by_thread: dict[bytes, list[int]] = defaultdict(list)
            for message in messages:
                which, number = message.payload.split()
                by_thread[which].append(int(number))
            assert len(by_thread) == 4
            for numbers in by_thread.values():
                assert numbers == sorted(numbers)
                assert len(numbers) == each // 2


def test_batches_and_bursts_on_the_core_thread(gms: str) -> None:
    """Two callback forms, the same messages."""
    with connect_sync(gms) as sender, connect_sync(gms) as one, connect_sync(gms) as two:
        batches: list[Batch] = []
        bursts: list[Burst] = []
        full = threading.Event()

        def note(burst: Burst) -> None:
            bursts.append(burst)
            if sum(map(len, bursts)) == 1000:
                full.set()

        one.join("core").on_batch(batches.append)
        two.join("core")
        two.on_burst(note)
        out = sender.open("core")
        out.wait_members(2)
        for number in range(1000):
            out.send(b"%d" % number)
        sender.flush(timeout=10)
        assert full.wait(5)
        expected = [b"%d" % n for n in range(1000)]
        one.stats()
        assert [p for batch in batches for p in batch.payloads] == expected
        assert [p for burst in bursts for p in burst.payloads] == expected


def test_views_in_the_synchronous_form(gms: str) -> None:
    """They can be waited for."""
    with connect_sync(gms) as one:
        group = one.join("sync-views")
        with connect_sync(gms) as other:
            other.join("sync-views")
            assert len(group.wait_members(2).members) == 2
        numbers = [view.number for view in group.views(timeout=1)]
        assert numbers == sorted(set(numbers))
        assert len(numbers) == 3
