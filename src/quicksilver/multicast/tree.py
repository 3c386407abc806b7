"""Who hands a packet on to whom where there is no IP multicast.

A sender that sends a copy to every member by itself is slower the more members there
are. Instead it sends to a few, who hand on what they get to a few others each, and so on:
every node sends as many copies, and the last member is a logarithm of steps away. The
tree is a function of the region view and the sender, so nobody has to speak about it;
senders of one region begin it with different members. A member below one that has
crashed is repaired by its ring, like anybody who lost packets, until the view changes.
"""

from __future__ import annotations


def children_of(members: tuple[int, ...], sender: int, node: int, fan_out: int) -> tuple[int, ...]:
    """Return whom a node hands the sender's packets on to; ``node`` may be the sender.

    ``fan_out`` 0: the sender sends to everybody.
    """
    order = _order(members, sender)
    if not fan_out:
        return order if node == sender else ()
    at = 0 if node == sender else order.index(node) + 1
    first = at * fan_out
    return order[first : first + fan_out]


def parent_of(members: tuple[int, ...], sender: int, node: int, fan_out: int) -> int:
    """Return from whom a member gets the sender's packets."""
    if not fan_out:
        return sender
    order = _order(members, sender)
    above = order.index(node) // fan_out
    return sender if above == 0 else order[above - 1]


def _order(members: tuple[int, ...], sender: int) -> tuple[int, ...]:
    """Return all other members, beginning at another one for every sender."""
    others = tuple(member for member in members if member != sender)
    at = sender % len(others) if others else 0
    return others[at:] + others[:at]
