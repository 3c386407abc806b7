"""Applications behind one controller, next to a node of the same cluster."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import quicksilver
from quicksilver import sync
from quicksilver.multicast.sending.unconfirmed import Reason
from quicksilver.net.frames import encode_frame
from quicksilver.net.local_socket import LocalStream, SocketPathError, connect_local
from quicksilver.net.shared_ring import map_memory
from quicksilver.recorder.history import FolderHistory
from quicksilver.wire import local
from tests.controller.service import Running, running_controller
from tests.node.service import connect, connect_sync, running_gms, take_sync
from tests.recorder.test_process import recording

pytestmark = pytest.mark.integration


@pytest.fixture
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address


@pytest.fixture
def running(gms: str, tmp_path: Path) -> Iterator[Running]:
    with running_controller(gms, str(tmp_path / "controller")) as found:
        yield found


def payloads_of(group: sync.Group, count: int) -> list[bytes]:
    return [message.payload for message in take_sync(group, count)]


def wait_until(is_so: object, timeout_s: float = 10.0) -> None:
    """Wait for something that nobody tells."""
    assert callable(is_so)
    until = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.005)


def test_a_machine_receives_once_for_all_its_applications(gms: str, running: Running) -> None:
    """Dissertation 3.2.6: one membership, one reception, and every application has it all."""
    with running.connect() as one, running.connect() as two, running.connect() as three:
        groups = [node.join("prices") for node in (one, two, three)]
        with connect_sync(gms) as remote:
            publisher = remote.open("prices")
            view = publisher.wait_members(1)
            sent = [number.to_bytes(8, "little") for number in range(500)]
            for payload in sent:
                publisher.send(payload)
            remote.flush(10)
            for group in groups:
                assert payloads_of(group, 500) == sent
        assert view.members == (one.id,) == (two.id,) == (three.id,)
        assert one.stats().counters["delivered_messages"] == 500


def test_applications_hear_each_other_and_themselves_if_they_ask(
    gms: str, running: Running
) -> None:
    """To each other they are what separate nodes are; messages have the same numbers everywhere."""
    with running.connect() as one, running.connect() as two, connect_sync(gms) as remote:
        own = one.join("talk", echo=True)
        others = [two.join("talk"), remote.join("talk")]
        for number in range(20):
            own.send(b"%d" % number)
        for group in (own, *others):
            found = take_sync(group, 20)
            assert [message.payload for message in found] == [b"%d" % n for n in range(20)]
            assert [message.sequence for message in found] == list(range(20))
            assert {message.sender for message in found} == {one.id}
        others[0].send(b"from two", key="k", headers={"colour": "blue"})
        for group in (own, others[1]):
            (message,) = take_sync(group, 1)
            assert (message.payload, message.key) == (b"from two", b"k")
            assert message.headers == {"colour": "blue"}
        with pytest.raises(quicksilver.TimedOutError):
            others[0].receive(timeout=0.05)


def test_one_that_only_opened_a_group_is_heard_on_its_own_machine(
    gms: str, running: Running
) -> None:
    """The group has no member anywhere else: the message never leaves the machine."""
    with running.connect() as one, running.connect() as two:
        listener = two.join("local")
        one.open("local").send(b"next door")
        assert payloads_of(listener, 1) == [b"next door"]
        assert one.flush(10) == ()


def test_flush_vouches_for_other_machines(gms: str, running: Running) -> None:
    """When it returns, every member has what was sent before."""
    with running.connect() as one, connect_sync(gms) as remote:
        member = remote.join("work")
        group = one.open("work")
        for number in range(3000):
            group.send(number.to_bytes(8, "little") * 10)
        assert one.flush(20) == ()
        assert member.queued_bytes > 3000 * 80


def test_what_may_be_lost_is_told_to_those_who_sent(running: Running) -> None:
    """By flush and by the next send, once each, as with a node; others hear nothing of it."""
    controller = running.controller
    assert controller is not None
    lost = quicksilver.Unconfirmed(Reason.GIVEN_UP, 1, "risky", 3, ((4, 6),), (9,))
    with running.connect() as one, running.connect() as two:
        group, other = one.join("risky"), two.join("risky")
        group.send(b"x")
        one.flush(10)
        controller.core.call(lambda: controller._note_lost(lost))

        def is_told() -> bool:
            try:
                group.send(b"y")
            except quicksilver.UnconfirmedError as error:
                return error.messages == (lost,)
            return False

        wait_until(is_told)
        with pytest.raises(quicksilver.UnconfirmedError) as caught:
            one.flush(10)
        assert caught.value.messages == (lost,)
        assert one.flush(10) == ()
        assert two.flush(10) == ()
        other.send(b"z")


@pytest.mark.slow
def test_an_exclusion_of_the_machine_is_told_as_to_a_node(gms: str, running: Running) -> None:
    """What nobody acknowledged may be lost: flush says so; then all goes on under a new number."""
    controller = running.controller
    assert controller is not None
    with (
        connect_sync(gms, queue_bytes=1000, receive_buffer_bytes=1 << 18) as remote,
        running.connect() as one,
        running.connect() as two,
    ):
        member = remote.join("cut")
        group, other = one.join("cut"), two.join("cut")
        group.wait_members(2)
        before = one.id
        for _ in range(40):
            group.send(bytes(8000))
        wait_until(lambda: controller.core.session.pending_bytes() > 0)
        environment = controller.core.session.engine.environment
        controller.core.call(lambda: environment.end_incarnation("it is for a test"))
        wait_until(lambda: one.exclusions == two.exclusions == 1 and one.id == two.id != before)
        member.on_batch(lambda batch: None)
        with pytest.raises(quicksilver.UnconfirmedError) as caught:
            one.flush(10)
        assert {each.group for each in caught.value.messages} == {"cut"}
        assert two.flush(10) == ()
        assert len(payloads_of(other, 40)) == 40
        group.wait_members(2)
        group.send(b"again")
        assert payloads_of(other, 1) == [b"again"]
        with pytest.raises(quicksilver.TimedOutError):
            group.receive(timeout=0.05)


@pytest.mark.slow
def test_history_comes_before_what_is_live(gms: str, running: Running, tmp_path: Path) -> None:
    """It is merged in the application: that the machine is in the group changes nothing."""

    async def record() -> None:
        async with recording(gms, tmp_path / "log", "kept"), connect(gms) as feed:
            out = await feed.open("kept")
            await out.wait_members(1)
            for number in range(100):
                await out.send(b"%d" % number)
            await feed.flush()

    asyncio.run(asyncio.wait_for(record(), 30))
    with running.connect() as one, running.connect() as late, connect_sync(gms) as feed:
        one.join("kept")
        group = late.join("kept", history=FolderHistory(tmp_path / "log"))
        out = feed.open("kept")
        out.wait_members(1)
        out.send(b"live")
        assert payloads_of(group, 101) == [*(b"%d" % n for n in range(100)), b"live"]


@pytest.mark.slow
def test_messages_sent_before_a_group_is_left_are_sent(gms: str, running: Running) -> None:
    """Leaving must not overtake them, on whichever way it goes."""
    with running.connect() as one, connect_sync(gms) as remote:
        member = remote.join("short")
        for number in range(20):
            group = one.open("short")
            group.send(b"%d" % number)
            one.leave(group)
        assert payloads_of(member, 20) == [b"%d" % number for number in range(20)]


@pytest.mark.slow
def test_what_an_application_had_sent_outlives_it(gms: str, running: Running) -> None:
    """It lies in shared memory, behind what flow control holds back, when the process ends."""
    with connect_sync(gms, queue_bytes=1000, receive_buffer_bytes=1 << 18) as remote:
        member = remote.join("last")
        node = running.connect()
        group = node.open("last")
        group.wait_members(1)
        element = node.core.thread
        count = 0
        controller = running.controller
        assert controller is not None
        (application,) = controller.applications
        stuck = 0
        while stuck < 20:  # the node can take no more, and the ring is full
            count += group.post(count.to_bytes(8, "little") * 1000)
            is_stuck = application.held is not None and element.lane.is_blocked
            stuck = stuck + 1 if is_stuck else 0
            if is_stuck:
                time.sleep(0.005)
        given = sum(element.counts.values()) - sum(m for _, _, m, _ in list(element._unsent))
        assert application.has_unread()
        node.close(timeout=0)
        got: list[int] = []
        member.on_batch(
            lambda batch: got.extend(int.from_bytes(p[:8], "little") for p in batch.payloads)
        )
        wait_until(lambda: len(got) >= given)
        assert got == list(range(len(got)))


@pytest.mark.slow
def test_a_group_may_be_left_and_joined_again_without_waiting(gms: str, running: Running) -> None:
    """The second request must not overtake the first, which goes behind messages."""

    async def main() -> list[bytes]:
        async with (
            quicksilver.connect(running.address) as node,
            quicksilver.connect(gms, interface="lo") as remote,
        ):
            sender = await remote.open("again")
            for _ in range(20):
                group = await node.join("again")
                for _ in range(50):
                    await group.send(bytes(1000))
                leaving = asyncio.ensure_future(node.leave(group))
                await asyncio.sleep(0)
                leaving.cancel()
            group = await node.join("again")
            await sender.send(b"heard")
            return [(await group.receive(5)).payload]

    assert asyncio.run(asyncio.wait_for(main(), 20)) == [b"heard"]


def test_the_machine_leaves_a_group_with_its_last_application(gms: str, running: Running) -> None:
    """Memberships follow the applications."""
    with connect_sync(gms) as remote:
        watcher = remote.join("watched")
        with running.connect() as one:
            one.join("watched")
            with running.connect() as two:
                left = two.join("watched")
                watcher.wait_members(2)
                two.leave(left)
            assert watcher.view is not None
            assert len(watcher.view.members) == 2
        wait_until(lambda: watcher.view is not None and len(watcher.view.members) == 1)


def test_a_slow_reader_slows_senders_and_loses_nothing(gms: str, tmp_path: Path) -> None:
    """With ``block`` the ring, the controller and then the sender wait; others get it, too."""
    path = str(tmp_path / "controller")
    with (
        running_controller(gms, path, ring_bytes=1 << 16) as running,
        running.connect() as slow,
        running.connect() as quick,
        connect_sync(gms) as remote,
    ):
        reader = slow.join("bulk", queue_bytes=10_000)
        other = quick.join("bulk")
        publisher = remote.open("bulk")
        sent = [number.to_bytes(8, "little") * 125 for number in range(2000)]
        for payload in sent:
            publisher.send(payload)
        controller = running.controller
        assert controller is not None
        wait_until(controller.core.session.is_receiving_paused)
        found = payloads_of(reader, 2000)
        assert found == sent
        assert payloads_of(other, 2000) == sent
        assert reader.dropped == other.dropped == 0


def test_one_that_drops_holds_nobody_up_and_counts_exactly(gms: str, tmp_path: Path) -> None:
    """Its queue is tiny, and so is the ring: what it lacks is told in ``dropped``."""
    path = str(tmp_path / "controller")
    with (
        running_controller(gms, path, ring_bytes=1 << 16) as running,
        running.connect() as one,
        running.connect() as two,
        connect_sync(gms) as remote,
    ):
        lossy = one.join("bulk", queue_bytes=5000, overflow="drop_oldest")
        other = two.join("bulk")
        publisher = remote.open("bulk")
        sent = [number.to_bytes(8, "little") * 125 for number in range(2000)]
        for payload in sent:
            publisher.send(payload)
        assert payloads_of(other, 2000) == sent
        got: list[bytes] = []
        while sent[-1] not in got:
            got += payloads_of(lossy, 1)
        assert len(got) + lossy.dropped == 2000
        assert got == sorted(got, key=lambda payload: int.from_bytes(payload[:8], "little"))


@pytest.mark.slow
def test_messages_larger_than_the_ring_pass_both_ways(gms: str, tmp_path: Path) -> None:
    """Piece by piece."""
    path = str(tmp_path / "controller")
    with (
        running_controller(gms, path, ring_bytes=1 << 16) as running,
        running.connect() as one,
        running.connect() as two,
        connect_sync(gms) as remote,
    ):
        groups = [one.join("large"), two.join("large"), remote.join("large")]
        for sender in (0, 2):
            payload = os.urandom(6 << 20)
            groups[sender].send(payload)
            for place, group in enumerate(groups):
                if place != sender:
                    assert payloads_of(group, 1) == [payload]


def test_the_asyncio_form_is_the_same(gms: str, running: Running) -> None:
    """A program does not change: ``connect``, ``join``, ``send``, ``async for``."""

    async def main() -> list[bytes]:
        async with (
            quicksilver.connect(running.address) as one,
            quicksilver.connect(running.address) as two,
        ):
            group = await one.join("names", str)
            other = await two.open("names", str)
            for name in ("ada", "grace", "end"):
                await other.send(name)
            await two.flush(10)
            found = []
            async for message in group:
                found.append(message.payload)
                if message.payload == "end":
                    break
            view = await group.wait_members(1)
            assert view.members == (one.id,)
            await one.leave(group)
            return found

    assert asyncio.run(asyncio.wait_for(main(), 20)) == ["ada", "grace", "end"]


def test_what_needs_a_node_is_refused_in_one_line(running: Running) -> None:
    """The error says what to do instead."""
    with running.connect() as node:
        group = node.join("some")
        calls = [
            lambda: node.join("some.*"),
            lambda: node.join("other", queue="workers"),
            lambda: node.open("other", retain=1),
            lambda: node.on_burst(print),
            lambda: group.request(b"?"),
            lambda: group.serve(lambda request: None),
            lambda: group.send_from(lambda: None),
        ]
        for call in calls:
            with pytest.raises(quicksilver.NeedsNodeError) as caught:
                call()
            assert "\n" not in str(caught.value)
            assert "connect to the GMS" in str(caught.value)
    with pytest.raises(quicksilver.OptionError, match="the controller's to choose"):
        running.connect(interface="lo")


def test_choices_about_a_group_hold_for_the_machine(running: Running) -> None:
    """One node cannot do two things with the messages of one group."""
    with running.connect() as one, running.connect() as two:
        one.open("shared", empty="drop")
        with pytest.raises(quicksilver.ControllerRefusedError, match="choose the same"):
            two.open("shared", empty="error")
        with pytest.raises(quicksilver.ControllerRefusedError, match="choose the same"):
            two.join_all(["other", "shared"], empty="wait")
        two.join_all(["other", "shared"])
        two.join("twice")
        with pytest.raises(quicksilver.AlreadyJoinedError):
            two.join("twice")


def test_an_empty_group_is_an_error_if_that_was_chosen(gms: str, running: Running) -> None:
    """Applications know whether somebody is in the groups that they send to."""
    with running.connect() as one, connect_sync(gms) as remote:
        group = one.open("nobody", empty="error")
        with pytest.raises(quicksilver.EmptyGroupError):
            group.send(b"x")
        member = remote.join("nobody")
        group.wait_members(1)

        def is_sent() -> bool:
            try:
                group.send(b"there")
            except quicksilver.EmptyGroupError:
                return False
            return True

        wait_until(is_sent)
        assert payloads_of(member, 1) == [b"there"]


@pytest.mark.slow
def test_many_groups_are_joined_at_once(gms: str, running: Running) -> None:
    """One request to the GMS, not one after the other."""
    names = [f"group-{number}" for number in range(150)]
    with running.connect() as one, running.connect() as two, connect_sync(gms) as remote:
        groups = one.join_all(names)
        others = two.join_all(names[::-1])
        for group in remote.open_all(names):
            group.send(group.name.encode())
        for group in (*groups, *others):
            assert payloads_of(group, 1) == [group.name.encode()]
        with pytest.raises(quicksilver.ControllerRefusedError, match="too many groups"):
            one.join_all([f"more-{number}" for number in range(1000)])
        one.leave(*groups)


def test_nobody_listens(tmp_path: Path) -> None:
    """The error names the path and the command."""
    with pytest.raises(quicksilver.ControllerUnreachableError, match="quicksilver controller"):
        sync.connect(f"unix:{tmp_path}/nothing")


def test_whoever_waits_in_send_is_told_that_the_controller_is_gone(
    gms: str, tmp_path: Path
) -> None:
    """Even if it has not read what it was sent."""
    path = str(tmp_path / "controller")
    with (
        connect_sync(gms) as remote,
        running_controller(gms, path, ring_bytes=1 << 16) as running,
    ):
        member = remote.join("busy", queue_bytes=1000)
        node = running.connect()
        group = node.join("busy", queue_bytes=1000)
        for _ in range(200):
            member.send(bytes(1000))

        def send_on() -> None:
            while True:
                group.send(bytes(10_000))

        running.loop.call_soon_threadsafe(running.stop.set)
        with pytest.raises(quicksilver.ControllerLostError):
            send_on()
        with pytest.raises(quicksilver.ControllerLostError):
            node.flush()
        node.close()
        while member.queued_bytes:
            member.receive_batch(timeout=5)


def test_the_socket_is_the_users_alone_and_its_own(gms: str, running: Running) -> None:
    """A second controller is refused; a socket that a dead one left is replaced."""
    assert stat.S_IMODE(os.stat(running.path).st_mode) == 0o600
    with (
        pytest.raises(SocketPathError, match="another controller"),
        running_controller(gms, running.path),
    ):
        pass
    with running.connect() as node:
        assert node.id
    stale = running.path + "-stale"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(stale)
    with running_controller(gms, stale) as other, other.connect() as node:
        assert node.id


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"\xff\xff\xff\xff",
        encode_frame(b"nonsense"),
        encode_frame(local.encode(local.Hello(99, "later"))),
        b"",
    ],
)
def test_whoever_says_nonsense_is_cut_off_alone(running: Running, bytes_sent: bytes) -> None:
    """Garbage, a later version, or nothing at all: the others do not notice."""
    with running.connect() as one, running.connect() as two:
        group, other = one.join("calm"), two.join("calm")
        with connect_local(running.path, 5) as sock:
            sock.sendall(bytes_sent)
            if bytes_sent:
                sock.settimeout(5)
                while sock.recv(4096):
                    pass
        group.send(b"still here")
        assert payloads_of(other, 1) == [b"still here"]


def test_one_that_scribbles_in_its_memory_harms_itself_alone(running: Running) -> None:
    """Cursors are clamped, records checked; the ring of a group cannot be written at all."""
    stream = LocalStream(connect_local(running.path, 5), local.FRAME_BYTES_MAX, 1 << 20)
    with closing(stream), running.connect() as one, running.connect() as two:
        group, other = one.join("calm"), two.join("calm")
        stream.send(local.encode(local.Hello(local.VERSION, "vandal")))
        stream.send(local.encode(local.Subscribe(request=1, join=("calm",))))
        frames: list[bytes] = []

        def is_answered() -> bool:
            frames.extend(stream.receive())
            found = [local.parse_controller(frame) for frame in frames]
            return any(isinstance(each, local.Subscribed) for each in found)

        wait_until(is_answered)
        descriptors = stream.take_descriptors(5)
        words_fd, own_fd, bell, _, ring_fd = descriptors
        words = memoryview(map_memory(words_fd, is_writable=True)).cast("Q")
        for place in range(len(words)):
            words[place] = 2**64 - 1
        with pytest.raises(PermissionError):
            os.pwrite(ring_fd, b"x", 0)
        for number in range(200):
            group.send(b"%d" % number)
        assert payloads_of(other, 200) == [b"%d" % number for number in range(200)]
        own = map_memory(own_fd, is_writable=True)
        memoryview(own).cast("Q")[2] = 2**63
        os.eventfd_write(bell, 1)

        def is_cut_off() -> bool:
            try:
                stream.receive()
            except ConnectionError:
                return True
            return False

        wait_until(is_cut_off)
        group.send(b"after")
        assert payloads_of(other, 1) == [b"after"]
        for descriptor in descriptors:
            os.close(descriptor)
