"""Whether a stored state can be one that a GMS stored.

A file may be intact as a database and still be wrong: edited, mixed from two
copies, or written by a bug. A GMS that started from it would give out numbers
twice or stumble later, far from the cause; so the whole state is looked through
once, before anything is made of it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

from quicksilver.membership.names import find_name_problem, find_pattern_name_problem
from quicksilver.membership.planning import PLANNERS
from quicksilver.membership.store import Counters, Image, StoredGroup, StoredNode, StoredRegion
from quicksilver.membership.tables import is_private_region
from quicksilver.stdx.text import printable
from quicksilver.wire.gms import SECRET_BYTES
from quicksilver.wire.ids import GROUPS_MAX

NUMBER_MAX = (1 << 63) - 1


def find_image_problem(image: Image, planner: str) -> str | None:
    """Say in one line what is wrong, or return None; ``planner`` is the one in use."""
    return next(_find_problems(image, planner), None)


def _find_problems(image: Image, planner: str) -> Iterator[str]:
    counters = image.counters
    if not _is_number(image.cluster, 1):
        yield f"the number of the cluster is {image.cluster!r}"
    if image.planner != planner and image.planner not in {*PLANNERS, "loaded"}:
        yield f"no planner is called {printable(str(image.planner), 40)!r}"
    for name in Counters.__dataclass_fields__:
        value = getattr(counters, name)
        if not _is_number(value, 0):
            yield f"the counter {name!r} is {value!r}"
            return
    yield from _find_unborn("node", image.nodes, counters.node)
    yield from _find_unborn("group", image.groups, counters.group)
    planned = [region for region in image.regions if not is_private_region(region)]
    yield from _find_unborn("region", planned, counters.region)
    if counters.group > GROUPS_MAX:
        yield f"the counter 'group' is {counters.group}, past the numbers that groups have"
    yield from _find_unborn("batch", image.reviews, counters.batch + 1)
    names: dict[str, int] = {}
    for number, group in image.groups.items():
        yield from (f"group {number} {problem}" for problem in _find_in_group(group))
        other = names.setdefault(group.name, number)
        if other != number:
            yield f"groups {other} and {number} have the same name"
    for region, found in image.regions.items():
        is_private = is_private_region(region)
        yield from (
            f"region {region} {problem}"
            for problem in _find_in_region(found, image, is_private=is_private)
        )
    for node, row in image.nodes.items():
        yield from (f"node {node} {problem}" for problem in _find_in_node(row, image))
    for number, placement in image.placements.items():
        if number not in image.groups:
            yield f"group {number} has regions and does not exist"
        if not _are_known(placement.regions, image.regions):
            yield f"group {number} is in regions that do not exist, or not in order"
        if placement.hierarchy is not None and not _is_number(placement.hierarchy, 0):
            yield f"group {number} is in hierarchy {placement.hierarchy!r}"


def _find_unborn(kind: str, numbers: Iterable[int], next_number: int) -> Iterator[str]:
    for number in numbers:
        if not _is_number(number, 1):
            yield f"{kind} {number!r} has no proper number"
        elif number >= next_number:
            yield f"{kind} {number} exists and would be given out again"


def _find_in_group(group: StoredGroup) -> Iterator[str]:
    if not _is_text(group.name) or find_name_problem(group.name) is not None:
        yield "has a name that no group can have"
    if not _is_number(group.view, 1):
        yield f"has view {group.view!r}"
    if group.hybrid != "" and not _is_multicast(group.hybrid):
        yield f"has the address {printable(str(group.hybrid), 40)!r}, which is not multicast"
    if group.is_hybrid and group.hybrid == "":
        yield "is hybrid without an address"


def _find_in_region(region: StoredRegion, image: Image, *, is_private: bool) -> Iterator[str]:
    if not _is_number(region.view, 1):
        yield f"has view {region.view!r}"
    if region.address != "" if is_private else not _is_multicast(region.address):
        yield f"has the address {printable(str(region.address), 40)!r}, which is not multicast"
    if not _are_known(region.members, image.nodes):
        yield "has members that do not exist, or not in order"


def _find_in_node(node: StoredNode, image: Image) -> Iterator[str]:
    if not _is_text(node.name):
        yield "has no name"
    try:
        ipaddress.IPv4Address(node.ip)
    except ValueError:
        yield f"has the address {printable(str(node.ip), 40)!r}"
    if not _is_number(node.port, 1) or node.port > 65535:
        yield f"has port {node.port!r}"
    if not _is_number(node.receive_buffer_bytes, 0):
        yield f"has a buffer of {node.receive_buffer_bytes!r} bytes"
    if not _is_secret(node.secret):
        yield "has no secret"
    for groups in (node.joined, node.opened):
        if not _are_known(groups, image.groups):
            yield "is in groups that do not exist, or not in order"
    if not _are_known(node.matched, node.joined):
        yield "has patterns for groups that it is not in, or not in order"
    for pattern in node.patterns:
        if find_pattern_name_problem(pattern) is not None:
            yield f"has the pattern {printable(pattern, 40)!r}, which is none"


def _is_number(value: object, least: int) -> bool:
    return type(value) is int and least <= value <= NUMBER_MAX


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_secret(value: object) -> bool:
    return isinstance(value, bytes) and len(value) == SECRET_BYTES


def _is_multicast(address: object) -> bool:
    try:
        return isinstance(address, str) and ipaddress.IPv4Address(address).is_multicast
    except ValueError:
        return False


def _are_known(numbers: Sequence[int], known: Collection[int]) -> bool:
    ascends = all(a < b for a, b in pairwise(numbers))
    return ascends and all(number in known for number in numbers)
