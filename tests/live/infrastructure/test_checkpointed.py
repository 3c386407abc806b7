"""The checkpointed channel in the simulator: order, state transfer, crashes, churn."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quicksilver.live.references.model import Reference
from quicksilver.stdx.rand import Rng
from quicksilver.trials.node import SimNode
from tests.live.infrastructure.kit import Stage, User, checkpointed, composed

ROOT = Path(__file__).parents[3]


def begin(stage: Stage, count: int) -> list[tuple[SimNode, User]]:
    """Start so many nodes with a user each, and wait until all have a state."""
    pairs = [(node, stage.join(node)) for node in stage.start(count)]
    assert stage.cluster.run(30, lambda: all(user.items is not None for _, user in pairs))
    return pairs


def talk(stage: Stage, pairs: list[tuple[SimNode, User]], rounds: int, tag: str = "") -> None:
    """Let everybody send at the same time, again and again."""
    for i in range(rounds):
        for node, user in pairs:
            if not node.is_dead:
                stage.send(node, user, f"{user.name}{tag}/{i}")
        stage.cluster.run(0.01)


def leader_of(pairs: list[tuple[SimNode, User]]) -> SimNode:
    """Return the node of who joined the log first."""
    people = next(user.people[-1] for node, user in pairs if not node.is_dead)
    number = int(people[0].partition(".")[0])
    return next(node for node, _ in pairs if node.id == number)


def check_fifo(items: list[str], *, is_whole: bool = True) -> None:
    """Nobody's updates are repeated or out of order, nor missing in the middle if ``is_whole``."""
    by_author: dict[str, list[int]] = {}
    for item in items:
        author, _, number = item.partition("/")
        by_author.setdefault(author, []).append(int(number))
    for author, numbers in by_author.items():
        whole = list(range(len(numbers))) if is_whole else sorted(set(numbers))
        assert numbers == whole, f"{author}: {numbers}"


@pytest.mark.parametrize("reference", [checkpointed(), composed(), checkpointed(safe=True)])
def test_all_get_the_same_updates_in_the_same_order(reference: Reference) -> None:
    """Concurrent senders; one order, everybody's own order within it."""
    stage = Stage(seed=3, reference=reference)
    pairs = begin(stage, 4)
    talk(stage, pairs, 20)
    assert stage.cluster.run(10, lambda: stage.agree(lambda items: len(items) == 80))
    items = pairs[0][1].items
    assert items is not None
    check_fifo(items)
    assert not stage.failures()


def test_a_newcomer_gets_the_state_and_then_what_follows() -> None:
    """Updates go on while the state, larger than a message, is on its way."""
    stage = Stage(seed=4)
    pairs = [(node, stage.join(node, size=300_000)) for node in stage.start(3)]
    assert stage.cluster.run(30, lambda: all(user.items is not None for _, user in pairs))
    talk(stage, pairs, 10)
    (node,) = stage.start(1)
    late = (node, stage.join(node))
    talk(stage, pairs, 30, "b")
    assert stage.cluster.run(10, lambda: stage.agree(lambda items: len(items) == 120))
    assert late[1].starts == 1
    assert late[1].items == pairs[0][1].items


def test_the_leader_crashes_and_nothing_that_survivors_sent_is_lost() -> None:
    """What one survivor has, all have; the dead one's updates are a prefix of what it sent."""
    stage = Stage(seed=5)
    pairs = begin(stage, 4)
    talk(stage, pairs, 5)
    dead = leader_of(pairs)
    talk(stage, pairs, 5, "b")
    dead.crash()
    talk(stage, pairs, 20, "c")
    living = [pair for pair in pairs if not pair[0].is_dead]

    def is_complete(items: list[str]) -> bool:
        return all(f"{user.name}c/19" in items for _, user in living)

    assert stage.cluster.run(30, lambda: stage.agree(is_complete))
    items = living[0][1].items
    assert items is not None
    check_fifo(items)
    for _, user in living:
        assert sum(item.startswith(f"{user.name}") for item in items) == 30
        assert user.starts == 1


def test_the_donor_crashes_while_the_state_is_on_its_way() -> None:
    """The newcomer gets it from the next leader."""
    stage = Stage(seed=6)
    pairs = [(node, stage.join(node, size=2_000_000)) for node in stage.start(3)]
    assert stage.cluster.run(30, lambda: all(user.items is not None for _, user in pairs))
    talk(stage, pairs, 3)
    (node,) = stage.start(1)
    late = stage.join(node)
    donor = leader_of(pairs)
    donors = next(user for one, user in pairs if one is donor)
    captures = donors.captures
    assert stage.cluster.run(10, lambda: donors.captures > captures)
    donor.crash()
    assert late.items is None
    assert stage.cluster.run(30, lambda: late.items is not None)
    assert stage.cluster.run(10, stage.agree)


def test_users_leave_and_the_last_takes_the_state_along() -> None:
    """A polite leave is noticed at once; who comes when all are gone starts from nothing."""
    stage = Stage(seed=7)
    pairs = begin(stage, 3)
    talk(stage, pairs, 3)
    first = leader_of(pairs)
    rest = [pair for pair in pairs if pair[0] is not first]
    stage.leave(first, next(user for node, user in pairs if node is first))
    talk(stage, rest, 3, "b")
    assert stage.cluster.run(5, lambda: stage.agree(lambda items: len(items) == 15))
    for node, user in rest:
        stage.leave(node, user)
    stage.cluster.run(1)
    again = stage.join(first)
    assert stage.cluster.run(10, lambda: again.items == [])


@pytest.mark.parametrize("reference", [checkpointed(), composed(patience_s=2.0)])
def test_several_users_on_one_node(reference: Reference) -> None:
    """Each is a participant of its own, and each node joins the group once."""
    stage = Stage(seed=8, reference=reference)
    pairs = begin(stage, 2)
    node = pairs[0][0]
    second = stage.join(node)
    second.name = "second"
    talk(stage, [*pairs, (node, second)], 10)
    assert stage.cluster.run(5, lambda: stage.agree(lambda items: len(items) >= 20))
    assert len(pairs[1][1].people[-1]) == 3
    stage.leave(node, second)
    talk(stage, pairs, 5, "b")
    assert stage.cluster.run(20, lambda: len(pairs[0][1].people[-1]) == 2)
    assert stage.cluster.run(5, stage.agree)


def test_who_is_counted_out_comes_back_with_the_state_and_its_own_updates() -> None:
    """A frozen node is excluded; its updates that nobody has are sent again."""
    stage = Stage(seed=9)
    pairs = begin(stage, 3)
    talk(stage, pairs, 3)
    frozen = next(pair for pair in pairs if pair[0] is not leader_of(pairs))
    before = frozen[0].id
    frozen[0].freeze(8.0)
    stage.send(*frozen, f"{frozen[1].name}/3")
    others = [pair for pair in pairs if pair is not frozen]
    talk(stage, others, 5, "b")
    assert stage.cluster.run(
        60,
        lambda: (
            frozen[0].id not in {0, before}
            and stage.agree(lambda items: f"{frozen[1].name}/3" in items)
        ),
    )
    assert frozen[1].starts == 2
    items = frozen[1].items
    assert items is not None
    check_fifo(items)


def test_all_are_counted_out_at_once_and_nothing_is_lost() -> None:
    """Nobody has a state by the views; who has the newest goes on with it."""
    stage = Stage(seed=10)
    pairs = begin(stage, 3)
    talk(stage, pairs, 5)
    stage.cluster.run(1)
    for node, _ in pairs:
        # Longer than a GMS that hears nobody suspects itself.
        node.freeze(35.0)
    stage.cluster.run(50)
    assert all(node.exclusions for node, _ in pairs)
    talk(stage, pairs, 3, "b")
    assert stage.cluster.run(20, lambda: stage.agree(lambda items: len(items) == 24))


CHAOS = "tests/live/infrastructure/test_checkpointed.py::test_churn_loss_and_crashes"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
def test_churn_loss_and_crashes(seed: int) -> None:
    """Whatever comes and goes: in the end all who are there have the same list."""
    stage = churn(seed)
    items = stage.alive()[0].items
    assert items is not None
    # If all who have the newest state go at once, the next newest goes on: then there are holes.
    is_whole = not any(node.exclusions for node in stage.cluster.lives)
    check_fifo(items, is_whole=is_whole)
    for node, users in stage.users.items():
        for user in users:
            if not node.is_dead and not node.exclusions:
                assert user.starts == 1, f"{user.name} lost its state: replay {CHAOS}[{seed}]"
    assert not stage.failures()


def churn(seed: int, seconds: float = 8.0) -> Stage:
    """Run a random mix of loss, crashes, joins, leaves and updates."""
    rng = Rng(seed)
    stage = Stage(seed=seed, reference=checkpointed(patience_s=4.0, safe=bool(seed % 3 == 0)))
    names = itertools.count()

    def join(node: SimNode) -> None:
        user = stage.join(node, size=rng.below(3) * 100_000)
        user.name = f"u{next(names)}"

    for node in stage.start(5):
        join(node)
    cluster = stage.cluster
    until = cluster.now + seconds
    while cluster.now < until:
        cluster.run(0.02)
        for node, users in stage.users.items():
            for user in users:
                if not node.is_dead and user.port is not None and rng.chance(0.3):
                    stage.send(node, user, f"{user.name}/{user.sent}")
                    user.sent += 1
        alive = cluster.alive()
        if rng.chance(0.01):
            rng.choice(alive).host.weather.drop_rate = rng.choice((0.0, 0.02, 0.1))
        if rng.chance(0.006) and len(alive) > 2:
            rng.choice(alive).crash()
        if rng.chance(0.008) and len(cluster.nodes) < 12:
            join(stage.start(1)[0])
        if rng.chance(0.01):
            join(rng.choice(alive))
        if rng.chance(0.008):
            node = rng.choice(cluster.alive())
            users = [user for user in stage.users.get(node, []) if user.port is not None]
            if users and len(stage.alive()) > 2:
                stage.leave(node, rng.choice(users))
        if rng.chance(0.003):
            rng.choice(alive).freeze(rng.choice((0.5, 6.0)))
    for node in cluster.alive():
        node.host.weather.clear()

    def is_calm() -> bool:
        return stage.agree(
            lambda items: all(
                not user.sent or f"{user.name}/{user.sent - 1}" in items for user in stage.alive()
            )
        )

    assert cluster.run(90, is_calm), f"they differ after seed {seed}: {describe(stage)}"
    cluster.run(1)
    assert is_calm()
    return stage


def describe(stage: Stage) -> str:
    """Say how far everybody is."""
    return ", ".join(
        f"{user.name}: {None if user.items is None else len(user.items)} of {user.people[-1:]}"
        for user in stage.alive()
    )


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_whatever_hashes_are() -> None:
    """Sets and dictionaries influence nothing: deliveries have the same order in any process."""
    code = (
        "from tests.live.infrastructure.test_checkpointed import churn;"
        "s = churn(2, 1.5); print([(u.name, u.people, u.items) for u in s.alive()], s.cluster.now,"
        " s.cluster.events.happened)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            },
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "77")
    }
    assert len(outputs) == 1
    assert len(outputs.pop()) > 1000


def test_a_bystander_is_not_waited_for() -> None:
    """Somebody listens in on the object's group, as ``quicksilver sub`` does. It takes no part
    in the protocol: nobody waits until patience with it is over."""
    reference = checkpointed(patience_s=1000.0)
    stage = Stage(seed=4, reference=reference)
    bystander = stage.cluster.start(1)[0]
    bystander.join("list")
    assert stage.cluster.settle()
    pairs = begin(stage, 2)
    talk(stage, pairs, 3)
    stage.cluster.run(5.0)
    assert [len(user.items or ()) for _, user in pairs] == [6, 6]
    late = begin(stage, 1)
    assert stage.cluster.run(30, lambda: len(late[0][1].items or ()) == 6)
