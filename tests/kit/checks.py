"""What must hold of a virtual world, one checker a property.

Payloads say who sent them to which group and as which message, so that a
checker needs no other book: ``payload("g", 3, 17)`` is node 3's message 17 to
group ``g``, whatever filling follows.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from tests.kit.cluster import VirtualNode, World


def payload(group: str, index: int, number: int, size: int = 0) -> bytes:
    head = f"{group}/{index}/{number}/".encode()
    return head + b"." * max(0, size - len(head))


def parse(message: bytes) -> tuple[str, int, int]:
    group, index, number, _ = message.split(b"/", 3)
    return group.decode(), int(index), int(number)


def runs(node: VirtualNode) -> dict[tuple[str, int, int], list[int]]:
    """Message numbers by (group, sending node, its incarnation), in order of delivery."""
    found: defaultdict[tuple[str, int, int], list[int]] = defaultdict(list)
    for _, incarnation, _, message in node.inbox:
        group, index, number = parse(message)
        found[group, index, incarnation].append(number)
    return dict(found)


def check_fifo(world: World) -> None:
    """In order and once, everywhere; without gaps for those who never left.

    (Dissertation 4.2.1: "FIFO-ordered on a per-sender basis".)
    """
    for node in world.nodes:
        gaps_allowed = node.was_excluded()
        for (group, index, incarnation), numbers in runs(node).items():
            where = f"seed {world.seed}: node {node.index}, {group} of {index} ({incarnation})"
            for before, after in pairwise(numbers):
                assert after != before, f"{where}: {after} twice"
                assert after > before, f"{where}: {after} after {before}"
                if after != before + 1:
                    assert gaps_allowed or group in node.left_groups, (
                        f"{where}: {after} after {before}"
                    )


def check_nothing_unsent(world: World) -> None:
    """Whatever was delivered had been sent by that node to that group, as it is."""
    ids = {name: world.group_id(name) for node in world.nodes for name in node.sent}
    for node in world.nodes:
        for group_id, _, _, message in node.inbox:
            group, index, number = parse(message)
            sent = world.nodes[index].sent[group]
            assert group_id == ids[group]
            assert number < len(sent), f"seed {world.seed}: {message[:40]!r} was never sent"
            assert sent[number] == message, f"seed {world.seed}: {message[:40]!r} was altered"


def check_sequences(world: World) -> None:
    """Per-group sequence numbers are those of the messages, unless the sender was reborn."""
    for node in world.nodes:
        for _, _, sequence, message in node.inbox:
            _, index, number = parse(message)
            if not world.nodes[index].was_excluded():
                assert sequence == number, f"seed {world.seed}: {message[:40]!r} is {sequence}"


def check_clean(world: World) -> None:
    """Every message is cleaned up: nothing pending, cached or waiting anywhere."""
    for node in world.nodes:
        if not node.is_dead:
            stats = node.engine.stats()
            for name in ("pending_bytes", "queued_bytes", "cache_bytes", "ahead_bytes"):
                assert stats[name] == 0, f"seed {world.seed}: node {node.index}: {name} {stats}"


def check_silent(world: World, seconds: float = 10.0) -> None:
    """With nothing to send, nothing is sent."""
    before = dict(world.wire)
    world.run(seconds)
    assert dict(world.wire) == before, f"seed {world.seed}: {before} became {dict(world.wire)}"


def check_all(world: World) -> None:
    check_fifo(world)
    check_nothing_unsent(world)
    check_sequences(world)
    check_clean(world)
    check_silent(world)


def check_complete(world: World, *, members: dict[str, set[int]]) -> None:
    """Members that stayed have everything from senders that stayed.

    ``members`` names, for each group, the nodes that were in it before anything
    was sent, and that are expected to be in it to the end.
    """
    for group, indices in members.items():
        for index in sorted(indices):
            node = world.nodes[index]
            if node.is_dead or node.was_excluded() or group in node.left_groups:
                continue
            for sender in world.nodes:
                if sender is node or sender.is_dead or sender.was_excluded():
                    continue
                sent = sender.sent.get(group, [])
                got = [p for p in node.received(sender) if parse(p)[0] == group]
                assert len(got) == len(sent), (
                    f"seed {world.seed}: node {index} has {len(got)} of {len(sent)} "
                    f"messages of {sender.index} to {group}"
                )


def send_numbered(node: VirtualNode, group: str, count: int, size: int = 100) -> None:
    """Send the node's next ``count`` messages to a group."""
    first = len(node.sent[group])
    node.send(group, *[payload(group, node.index, first + i, size) for i in range(count)])


def have_all(world: World, nodes: list[VirtualNode], group: str = "g") -> bool:
    """Whether the nodes have as much as others who are up have sent to the group."""
    sent = {n.index: len(n.sent[group]) for n in world.nodes if not n.is_dead and n.sent[group]}
    total = sum(sent.values())
    number = world.group_id(group)
    return all(node.counts[number] >= total - sent.get(node.index, 0) for node in nodes)
