"""A join is answered when everybody who may send to the group knows of it."""

from __future__ import annotations

import random

from quicksilver.membership.barrier import JoinBarrier
from quicksilver.membership.config import ServiceConfig
from quicksilver.wire import gms
from quicksilver.wire.ids import NodeId
from tests.membership.bench import SECRET, Bench, hello, kinds


def bench_with_a_sender(**config: float) -> tuple[Bench, int]:
    bench = Bench(ServiceConfig(**config))  # type: ignore[arg-type]
    return bench, bench.welcome(gms.Subscribe(1, open=("a",)))


def updates(replies: list[gms.Reply]) -> list[gms.Update]:
    return [reply for reply in replies if isinstance(reply, gms.Update)]


def test_a_join_is_answered_after_the_senders_have_confirmed_its_view() -> None:
    """Whatever they send afterwards goes to a view that has the new member."""
    bench, sender = bench_with_a_sender()
    bench.mute.add(sender)
    joiner = bench.connect()
    bench.say(joiner, hello(), gms.Subscribe(1, join=("a",)))
    heard = bench.run(0.5)
    assert kinds(heard[joiner]) == ["Welcome", "Update"]
    [update] = updates(heard[sender])
    assert update.is_awaited
    bench.say(sender, gms.Applied(update.batch))
    assert bench.run(0)[joiner] == [gms.Subscribed(1, (1,))]


def test_members_are_asked_as_well() -> None:
    """Who is in a group may send to it."""
    bench = Bench()
    member = bench.welcome(gms.Subscribe(1, join=("a",)))
    bench.mute.add(member)
    joiner = bench.connect()
    bench.say(joiner, hello(), gms.Subscribe(1, join=("a",)))
    assert "Subscribed" not in kinds(bench.run(0.5)[joiner])


def test_those_who_cannot_send_to_the_group_are_not_asked() -> None:
    """A join costs one confirmation for each that may send, and none besides."""
    bench = Bench()
    other = bench.welcome(gms.Subscribe(1, join=("b",)))
    former = bench.welcome(gms.Subscribe(1, open=("a",)), gms.Subscribe(2, close=("a",)))
    joiner = bench.connect()
    bench.say(joiner, hello(), gms.Subscribe(1, join=("a",)))
    heard = bench.run(0.02)
    assert kinds(heard[joiner]) == ["Welcome", "Update", "Subscribed"]
    for conn in (other, former, joiner):
        assert not any(update.is_awaited for update in updates(heard.get(conn, [])))


def test_who_comes_with_the_same_batch_is_not_asked() -> None:
    """It cannot send before it has the batch."""
    bench = Bench()
    conns = [bench.connect() for _ in range(3)]
    for conn in conns:
        bench.say(conn, hello(), gms.Subscribe(1, join=("a",)))
    heard = bench.run(0.02)
    assert all("Subscribed" in kinds(heard[conn]) for conn in conns)
    assert not any(update.is_awaited for conn in conns for update in updates(heard[conn]))


def test_leaving_waits_for_nobody() -> None:
    bench, sender = bench_with_a_sender()
    joiner = bench.welcome(gms.Subscribe(1, join=("a",)))
    bench.mute.add(sender)
    bench.say(joiner, gms.Subscribe(2, leave=("a",)))
    assert "Subscribed" in kinds(bench.run(0.02)[joiner])


def test_a_join_does_not_wait_for_ever() -> None:
    """A node that hangs holds joins up for ``join_wait_s`` and no longer."""
    bench, sender = bench_with_a_sender(join_wait_s=0.7)
    bench.mute.add(sender)
    joiner = bench.connect()
    bench.say(joiner, hello(), gms.Subscribe(1, join=("a",)))
    assert "Subscribed" not in kinds(bench.run(0.02 + 0.69)[joiner])
    assert kinds(bench.run(0.02)[joiner]) == ["Subscribed"]
    assert bench.service.counters.joins_unconfirmed == 1


def test_who_is_overdue_is_not_waited_for_again_until_it_confirms() -> None:
    """Joins one after the other must not each wait for the same node that hangs."""
    bench, sender = bench_with_a_sender(join_wait_s=0.7)
    bench.mute.add(sender)
    first, second, third = (bench.connect() for _ in range(3))
    bench.say(first, hello(), gms.Subscribe(1, join=("a",)))
    heard = bench.run(0.8)
    bench.say(second, hello(), gms.Subscribe(1, join=("a",)))
    heard = bench.run(0.02)
    assert "Subscribed" in kinds(heard[second])
    [update] = updates(heard[sender])
    bench.say(sender, gms.Applied(update.batch), gms.Heartbeat())
    bench.say(third, hello(), gms.Subscribe(1, join=("a",)))
    assert "Subscribed" not in kinds(bench.run(0.02)[third])


def test_a_silent_sender_is_not_waited_for() -> None:
    """Whoever is likely to be gone would only hold the join up."""
    bench, _ = bench_with_a_sender()
    joiner = bench.welcome()
    bench.live(1.6, joiner)  # more than half of the failure timeout
    bench.mute.add(1)
    bench.say(joiner, gms.Subscribe(1, join=("a",)))
    assert "Subscribed" in kinds(bench.run(0.02)[joiner])


def test_a_sender_that_is_gone_is_not_waited_for() -> None:
    """Its connection broke, or it said goodbye, while a join waited for it."""
    for end in (
        lambda bench, conn: bench.service.handle_disconnected(conn, bench.now),
        lambda bench, conn: bench.say(conn, gms.Goodbye()),
    ):
        bench, sender = bench_with_a_sender()
        bench.mute.add(sender)
        joiner = bench.connect()
        bench.say(joiner, hello(), gms.Subscribe(1, join=("a",)))
        assert "Subscribed" not in kinds(bench.run(0.02)[joiner])
        end(bench, sender)
        assert "Subscribed" in kinds(bench.run(0)[joiner])


def test_a_sender_that_resumes_is_asked_again() -> None:
    """What it confirms on the new connection is the complete update."""
    bench, sender = bench_with_a_sender()
    bench.mute.add(sender)
    bench.service.handle_disconnected(sender, bench.now)
    again = bench.connect()
    bench.mute.add(again)
    bench.say(again, hello(gms.Resume(bench.service.cluster, 1, SECRET, 1)))
    joiner = bench.connect()
    bench.say(joiner, hello(), gms.Subscribe(1, join=("a",)))
    heard = bench.run(0.02)
    assert [update.is_awaited for update in updates(heard[again])] == [True, True]
    assert "Subscribed" not in kinds(heard[joiner])
    # To confirm the first is not enough: the join came after it.
    bench.say(again, gms.Applied(updates(heard[again])[0].batch))
    assert joiner not in bench.run(0)
    bench.say(again, gms.Applied(updates(heard[again])[1].batch))
    assert kinds(bench.run(0)[joiner]) == ["Subscribed"]


def test_answers_keep_the_order_of_requests() -> None:
    """The node takes the first answer for that of its first request."""
    bench, sender = bench_with_a_sender()
    bench.mute.add(sender)
    joiner = bench.welcome()
    bench.say(joiner, gms.Subscribe(1, join=("a",)), gms.Subscribe(2, join=("b",)))
    assert "Subscribed" not in kinds(bench.run(0.5)[joiner])
    bench.say(sender, gms.Applied(1 << 60))
    answers = [reply for reply in bench.run(0)[joiner] if isinstance(reply, gms.Subscribed)]
    assert [answer.request for answer in answers] == [1, 2]


def test_a_request_that_is_repeated_on_a_new_connection_waits_too() -> None:
    """The join took effect in an earlier batch, and the sender has still not confirmed that."""
    bench, sender = bench_with_a_sender()
    bench.mute.add(sender)
    joiner = bench.welcome()
    bench.say(joiner, gms.Subscribe(1, join=("a",)))
    bench.run(0.02)
    bench.service.handle_disconnected(joiner, bench.now)
    again = bench.connect()
    bench.say(again, hello(gms.Resume(bench.service.cluster, 2, SECRET, 1)))
    bench.say(again, gms.Subscribe(1, join=("a",)))
    assert "Subscribed" not in kinds(bench.run(0.1)[again])
    bench.say(sender, gms.Applied(1 << 60))
    assert kinds(bench.run(0)[again]) == ["Subscribed"]


def test_answers_against_an_obvious_model() -> None:
    """Whoever waits for whom: the same answers as with a plain set of pairs."""
    for seed in range(200):
        rng = random.Random(seed)
        barrier = JoinBarrier(1.0)
        owed: dict[int, set[int]] = {slot: set() for slot in range(6)}
        """Model: batches that a node was asked for and has not confirmed."""
        waiting: list[tuple[int, int, set[tuple[int, int]]]] = []
        sent: dict[int, list[int]] = {}
        for batch in range(1, 40):
            asked = rng.randrange(64)
            barrier.ask(asked, asked, batch, now=0.0)
            for slot in range(6):
                if asked >> slot & 1:
                    owed[slot].add(batch)
            number = batch
            node, needs = rng.randrange(3), rng.randrange(64)
            barrier.answer(NodeId(node), 0, bytes([number]), batch, needs)
            waiting.append(
                (node, number, {(s, b) for s in range(6) if needs >> s & 1 for b in owed[s]})
            )
            for _ in range(rng.randrange(3)):
                slot, upto = rng.randrange(6), rng.randrange(batch + 1)
                barrier.handle_confirmed(slot, upto, now=0.0)
                done = {(slot, b) for b in owed[slot] if b <= upto}
                owed[slot] = {b for b in owed[slot] if b > upto}
                for _, _, pairs in waiting:
                    pairs.difference_update(done)
            while (answer := barrier.poll_answer()) is not None:
                sent.setdefault(answer.node, []).append(answer.frame[0])
            # Never early: nobody is answered whose pairs are open.
            open_numbers = {n for _, n, pairs in waiting if pairs}
            assert not open_numbers & {n for numbers in sent.values() for n in numbers}
        for slot in range(6):
            barrier.handle_confirmed(slot, 1000, now=0.0)
        while (answer := barrier.poll_answer()) is not None:
            sent.setdefault(answer.node, []).append(answer.frame[0])
        # Never lost, never out of order.
        for node in range(3):
            assert sent.get(node, []) == [n for asker, n, _ in waiting if asker == node]
        assert barrier.next_timeout() is None


def test_who_was_overdue_is_waited_for_again_when_it_answers() -> None:
    """Joins come faster than a slow node confirms them: it never has confirmed the last one."""
    barrier = JoinBarrier(1.0)
    barrier.ask(1, 1, 1, now=0.0)
    barrier.answer(NodeId(1), 0, b"first", 1, 1)
    assert barrier.handle_timeout(1.0) == [0]
    assert barrier.poll_answer() is not None
    for batch in range(2, 5):
        barrier.ask(1, 1, batch, now=1.0)
    barrier.handle_confirmed(0, 2, now=1.1)
    assert not barrier.is_excused(0)
    barrier.answer(NodeId(1), 0, b"second", 4, 1)
    assert barrier.poll_answer() is None
    assert barrier.next_timeout() == 2.1
    barrier.handle_confirmed(0, 4, now=1.2)
    assert barrier.poll_answer() is not None


def test_an_answer_behind_another_one_waits_again_for_who_answers() -> None:
    """It was free, and is not sent yet: by now its sender is one that is waited for."""
    barrier = JoinBarrier(1.0)
    barrier.ask(0b01, 0b01, 1, now=0.0)
    assert barrier.handle_timeout(1.0) == [0]
    barrier.ask(0b11, 0b11, 2, now=1.0)
    barrier.answer(NodeId(1), 0, b"first", 2, 0b10)
    barrier.answer(NodeId(1), 0, b"second", 2, 0b01)
    barrier.handle_confirmed(0, 1, now=1.1)
    barrier.handle_confirmed(1, 2, now=1.2)
    answer = barrier.poll_answer()
    assert answer is not None
    assert answer.frame == b"first"
    assert barrier.poll_answer() is None
    barrier.handle_confirmed(0, 2, now=1.3)
    assert barrier.poll_answer() is not None


def test_to_confirm_the_same_again_holds_nobody_up() -> None:
    barrier = JoinBarrier(1.0)
    barrier.ask(1, 1, 5, now=0.0)
    barrier.answer(NodeId(1), 0, b"", 5, 1)
    for tenth in range(10):
        barrier.handle_confirmed(0, 3, now=tenth / 10)
    assert barrier.handle_timeout(1.0) == [0]
    assert barrier.poll_answer() is not None
    barrier.handle_confirmed(0, 3, now=1.1)
    assert barrier.is_excused(0)


def send(
    barrier: JoinBarrier, waiting: dict[int, int], owed: list[set[int]], is_excused: list[bool]
) -> None:
    """Take the answers that are free; none of those who are waited for owes what they need."""
    while (answer := barrier.poll_answer()) is not None:
        batch = answer.frame[0]
        senders = waiting.pop(batch)
        for slot, owes in enumerate(owed):
            if senders >> slot & 1 and not is_excused[slot]:
                assert min(owes, default=batch + 1) > batch


def test_who_is_waited_for_against_an_obvious_model() -> None:
    """Nodes fall silent and answer again: nobody is answered while one who answers owes."""
    for seed in range(300):
        rng = random.Random(seed)
        barrier = JoinBarrier(1.0)
        now = 0.0
        owed: list[set[int]] = [set() for _ in range(5)]
        since, applied, is_excused = [0.0] * 5, [0] * 5, [False] * 5
        waiting: dict[int, int] = {}
        """Model: by batch, the senders of the answers that were not sent."""
        for batch in range(1, 60):
            now += rng.choice([0.0, 0.1, 0.4])
            asked = rng.randrange(32)
            barrier.ask(asked, asked, batch, now)
            for slot in range(5):
                if asked >> slot & 1:
                    since[slot] = since[slot] if owed[slot] else now
                    owed[slot].add(batch)
            needs = rng.randrange(32)
            barrier.answer(NodeId(rng.randrange(3)), 0, bytes([batch]), batch, needs)
            waiting[batch] = needs
            send(barrier, waiting, owed, is_excused)
            for _ in range(rng.randrange(3)):
                slot, upto = rng.randrange(5), rng.randrange(batch + 1)
                barrier.handle_confirmed(slot, upto, now)
                if owed[slot] and (upto >= max(owed[slot]) or upto > applied[slot]):
                    owed[slot] = {b for b in owed[slot] if b > upto}
                    applied[slot] = upto if owed[slot] else 0
                    since[slot], is_excused[slot] = now, False
                send(barrier, waiting, owed, is_excused)
            expected = [s for s in range(5) if owed[s] and not is_excused[s]]
            expected = [s for s in expected if now >= since[s] + 1.0]
            assert sorted(barrier.handle_timeout(now)) == expected
            for slot in expected:
                is_excused[slot] = True
            assert [barrier.is_excused(slot) for slot in range(5)] == is_excused
            send(barrier, waiting, owed, is_excused)
        # Whoever falls silent for good holds nobody up.
        barrier.handle_timeout(now + 1.0)
        while (answer := barrier.poll_answer()) is not None:
            del waiting[answer.frame[0]]
        assert not waiting


def test_a_pattern_waits_for_the_senders_of_all_groups_that_it_stands_for() -> None:
    """What is true of a join by name is true of one by pattern."""
    bench = Bench()
    sender = bench.welcome(gms.Subscribe(1, open=("a.x",)))
    bench.mute.add(sender)
    joiner = bench.connect()
    bench.say(joiner, hello(), gms.Subscribe(1, match=("a.*",)))
    heard = bench.run(0.5)
    assert kinds(heard[joiner]) == ["Welcome", "Update"]
    [update] = updates(heard[sender])
    bench.say(sender, gms.Applied(update.batch))
    assert bench.run(0)[joiner] == [gms.Subscribed(1, ())]
