"""The checkpointed channel when the network falls apart: the GMS's side goes on."""

from __future__ import annotations

import pytest

from quicksilver.live.references.builder import primitive
from quicksilver.trials.faults import Partition
from quicksilver.trials.gms import GMS_INDEX
from tests.live.infrastructure.kit import Stage, User, checkpointed
from tests.live.infrastructure.test_checkpointed import begin, check_fifo, leader_of, talk


@pytest.mark.parametrize("seed", range(51, 55))
@pytest.mark.parametrize("is_safe", [False, True])
def test_a_cut_off_leader_is_replaced_and_its_updates_come_later(seed: int, is_safe: bool) -> None:
    """Both sides go on sending; when the network is whole, all have everything, once."""
    stage = Stage(seed=seed, reference=checkpointed(safe=is_safe))
    pairs = begin(stage, 5)
    talk(stage, pairs, 5)
    stage.cluster.run(1)
    leader = leader_of(pairs)
    alone = next(user for node, user in pairs if node is leader)
    others = [pair for pair in pairs if pair[0] is not leader]
    before = list(alone.items or [])
    cut = Partition(at=0.0, island=(leader.index,))
    cut.begin(stage.cluster)
    talk(stage, pairs, 20, "b")
    stage.cluster.run(8)
    assert all(user.items == others[0][1].items for _, user in others)
    assert f"{others[0][1].name}b/19" in (others[0][1].items or [])
    if is_safe:
        assert alone.items == before, "it was given what the others never had"
    else:
        assert len(alone.items or []) > len(before), "it goes on until it learns that it is out"
    cut.end(stage.cluster)

    def is_whole(items: list[str]) -> bool:
        return len(items) == 25 + 100

    assert stage.cluster.run(60, lambda: stage.agree(is_whole))
    items = alone.items
    assert items is not None
    check_fifo(items)
    assert alone.starts == 2
    assert all(user.starts == 1 for _, user in others)
    assert not stage.failures()


@pytest.mark.parametrize("seed", range(61, 65))
def test_most_are_cut_off_from_the_gms(seed: int) -> None:
    """No majority counts: the one that the GMS sees goes on, and nothing anybody sent is lost."""
    stage = Stage(seed=seed)
    pairs = begin(stage, 4)
    talk(stage, pairs, 5)
    stage.cluster.run(1)
    kept = next(pair for pair in pairs if pair[0] is not leader_of(pairs))
    cut = Partition(at=0.0, island=(kept[0].index, GMS_INDEX))
    cut.begin(stage.cluster)
    talk(stage, pairs, 10, "b")
    stage.cluster.run(8)
    cut.end(stage.cluster)
    assert stage.cluster.run(60, lambda: stage.agree(lambda items: len(items) == 60))
    check_fifo(kept[1].items or [])
    assert kept[1].starts == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(71, 77))
def test_backups_keep_the_state_while_users_come_and_go(seed: int) -> None:
    """Users come one after the other; each finds what all before it left."""
    stage = Stage(seed=seed)
    backup = primitive("quicksilver.backup", group="list", copies=2, snapshot_updates=8)
    hosts = stage.start(3)
    for host in hosts:
        runtime = stage.runtimes[host]
        host.host.submit(
            lambda runtime=runtime: runtime.open(backup).when_done(  # type: ignore[misc]
                lambda done: stage.kept.append(done.result())
            )
        )
    stage.cluster.run(2)
    (node,) = stage.start(1)
    expected: list[str] = []
    for number in range(6):
        user: User = stage.join(node)
        user.name = f"u{number}"
        assert stage.cluster.run(20, lambda user=user: user.items is not None)  # type: ignore[misc]
        assert user.items == expected, f"user {number} finds another state than was left"
        for i in range(7):
            stage.send(node, user, f"{user.name}/{i}")
            expected.append(f"{user.name}/{i}")
            stage.cluster.run(0.03)
        stage.cluster.run(1)
        assert user.items == expected
        stage.leave(node, user)
        if number in {1, 3}:
            # A host goes, and comes back at the end of the queue.
            index = seed % 3 if number == 1 else (seed + 1) % 3
            stage.cluster.nodes[index].crash()
            stage.cluster.run(6)
            host = stage.cluster.restart(index)
            runtime = stage.equip(host)
            host.host.submit(
                lambda runtime=runtime: runtime.open(backup).when_done(  # type: ignore[misc]
                    lambda done: stage.kept.append(done.result())
                )
            )
        stage.cluster.run(2)
    assert not stage.failures()
