"""A few nodes as one value, and what can happen to them next.

Every step of a protocol here is one of ``run.steps``, so what is explored is what runs. What the
network does is made coarser in ways that lose nothing (the reasons are in
docs/properties/how-it-runs.md):

- A round is one action: its leader speaks, its members answer, it ends. Events at a member
  between its answer and the end are the same as events after the end.
- A round that others overtake is opened as one action, members are visited by more, and another
  ends it. There are ``reorders`` of them.
- A crash changes views at once: what happens before they change is what happens if messages of
  that node are lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from quicksilver.properties.plan import Event, Plan
from quicksilver.properties.run.claims import Observed
from quicksilver.properties.run.placement import Living, Placement, height_of
from quicksilver.properties.run.program import Program
from quicksilver.properties.run.state import Asked, Domain, Output, Report, Standing, Word
from quicksilver.properties.run.steps import (
    close_round,
    enter_view,
    handle_event,
    make_domain,
    make_node,
    merge,
    open_round,
    takes_event,
    visit,
)
from quicksilver.properties.values.intset import IntSet
from quicksilver.properties.values.kinds import (
    AddressKind,
    BoolKind,
    IntKind,
    IntSetKind,
    Kind,
    Value,
    default_of,
)
from quicksilver.recovery import domains
from quicksilver.recovery.domains import Name


class Faults(NamedTuple):
    """How much of each kind may still go wrong."""

    crashes: int = 1
    joins: int = 1
    losses: int = 1
    """Words or reports that do not arrive."""
    reorders: int = 1
    """Rounds that others overtake."""


class Post(NamedTuple):
    """A living node."""

    node: Domain
    number: int
    """Greater than that of any node that started before."""
    led: tuple[tuple[Name, Domain], ...]
    """Domains that it leads, lowest first."""
    given: frozenset[int]
    """Events that its application has given."""


class Late(NamedTuple):
    """A round that others may overtake."""

    name: Name
    word: Word
    report: Report
    waiting: tuple[int, ...]
    """Numbers of nodes that have not got the word yet."""
    is_over: bool
    """It has ended: words that arrive now are answered in vain."""


class View(NamedTuple):
    """The members of a domain."""

    name: Name
    number: int
    members: tuple[int, ...]
    """Numbers of nodes; nobody if it has died out."""


class World(NamedTuple):
    """Everything, at one moment."""

    posts: tuple[Post | None, ...]
    """By slot."""
    views: tuple[View, ...]
    late: tuple[Late, ...]
    faults: Faults
    started: int
    """How many nodes have been started."""
    due: tuple[Name, int, int] | None = None
    """After an event at a node: its domain, which is to hold a round next unless other nodes of
    it get events as well, in order. Which slot and event came last."""
    has_begun: bool = False
    """Somebody has counted in the whole system."""
    outputs: tuple[tuple[int, Asked], ...] = ()
    """What nodes (by slot) asked of their applications in the last action."""


# What can happen


class Given(NamedTuple):
    """The application of a node says something."""

    slot: int
    event: int
    """Position among the model's events."""


class Round(NamedTuple):
    """A domain holds a round."""

    name: Name
    unheard: tuple[int, ...]
    """Slots whose member does not get the word."""
    unanswered: tuple[int, ...]
    """Slots whose member gets it, and whose report is lost."""


class Opened(NamedTuple):
    """A round begins that others may overtake; the member of each slot in ``told`` hears it."""

    name: Name
    told: tuple[int, ...]


class Arrived(NamedTuple):
    """The word of such a round comes late."""

    which: int
    slot: int


class Ended(NamedTuple):
    """Such a round ends."""

    which: int


class Crashed(NamedTuple):
    slot: int


class Started(NamedTuple):
    slot: int


Action = Given | Round | Opened | Arrived | Ended | Crashed | Started


class Model:
    """A program on a few slots."""

    def __init__(self, plan: Plan, *, slots: int = 3, size: int = 2, numbers: int = 1) -> None:
        """``size``: slots of a domain; ``numbers``: how many different ones events carry."""
        self.plan = plan
        self.program = Program(plan)
        self.slots = slots
        self.events = tuple(
            (at, arguments)
            for at, event in enumerate(plan.callbacks)
            if takes_event(self.program, at)
            for arguments in _arguments(event, slots, numbers)
        )
        height = height_of(slots, size)
        self.size, self.height = size, height
        self.top: Name = (height - 1, 0)

        @lru_cache(maxsize=4096)
        def layout(living: tuple[Living, ...]) -> dict[Name, domains.Domain]:
            placement = Placement(size, height)
            placement.become(living)
            return {name: placed.domain for name, placed in placement.domains.items()}

        self._layout = layout

    # The beginning

    def begin(self, faults: Faults) -> World:
        """Return a world in which all nodes have just started."""
        world = World((None,) * self.slots, (), (), faults, 0)
        for slot in range(self.slots):
            world = self._start(world, slot)
        return world

    def settle(self, world: World) -> World:
        """Return the world after rounds in which nothing goes wrong, until all nodes count."""
        for _ in range(4 * self.height):
            for name in sorted(self.layout(world)):
                world = self.apply(world, Round(name, (), ()))
        return world

    def layout(self, world: World) -> dict[Name, domains.Domain]:
        """Return the domains of the present membership."""
        return self._layout(
            tuple(
                Living(post.number, slot)
                for slot, post in enumerate(world.posts)
                if post is not None
            )
        )

    # What can be next

    def actions(self, world: World) -> Iterator[Action]:
        """Yield all that can happen next, in a fixed order.

        An event makes no difference to others before a round visits its node. So it comes just
        before one: whatever else lies between could as well have been before the event.
        """
        layout = self.layout(world)
        if world.due is not None:
            name, last, event = world.due
            yield from self._rounds(world, name, self.members(world, name))
            for which, late in enumerate(world.late):
                if late.name == name:
                    yield from (Arrived(which, self._slot_of(world, n)) for n in late.waiting)
            for slot, post in enumerate(world.posts):
                if post is not None and slot // self.size == name[1]:
                    for each in range(len(self.events)):
                        if (slot, each) > (last, event) and each not in post.given:
                            yield Given(slot, each)
            return
        living = sum(post is not None for post in world.posts)
        for name in sorted(layout):
            yield from self._rounds(world, name, self.members(world, name))
        for slot, post in enumerate(world.posts):
            if post is not None:
                yield from (Given(slot, e) for e in range(len(self.events)) if e not in post.given)
        for which, late in enumerate(world.late):
            if not late.is_over:
                yield Ended(which)
            yield from (Arrived(which, self._slot_of(world, number)) for number in late.waiting)
        for slot, post in enumerate(world.posts):
            if post is None and world.faults.joins:
                yield Started(slot)
            if post is not None and world.faults.crashes and living > 1:
                yield Crashed(slot)

    def _rounds(self, world: World, name: Name, members: list[int]) -> Iterator[Action]:
        yield Round(name, (), ())
        others = members[1:]
        if world.faults.losses and others:
            for slot in others:
                yield Round(name, (slot,), ())
                yield Round(name, (), (slot,))
        if world.faults.reorders:
            for count in range(len(others) + 1):
                for told in combinations(others, count):
                    yield Opened(name, told)

    # What becomes of it

    def apply(self, world: World, action: Action) -> World:
        """Return the world after something has happened."""
        world = world._replace(outputs=(), due=None)
        match action:
            case Given(slot, event):
                return self._give(world, slot, event)
            case Round(name, unheard, unanswered):
                lost = len(unheard) + len(unanswered)
                world, late = self._open(world, name, unheard, unanswered)
                faults = world.faults._replace(losses=world.faults.losses - lost)
                return self._close(world._replace(faults=faults), late)
            case Opened(name, told):
                members = self.members(world, name)
                unheard = tuple(slot for slot in members[1:] if slot not in told)
                world, late = self._open(world, name, unheard, ())
                faults = world.faults._replace(reorders=world.faults.reorders - 1)
                return world._replace(late=(*world.late, late), faults=faults)
            case Arrived(which, slot):
                return self._arrive(world, which, slot)
            case Ended(which):
                late = world.late[which]
                world = self._close(world, late)
                return self._with_late(world, which, late._replace(is_over=True))
            case Crashed(slot):
                faults = world.faults._replace(crashes=world.faults.crashes - 1)
                gone = world._replace(posts=_put(world.posts, slot, None), faults=faults)
                return self._change_views(gone)
            case Started(slot):
                faults = world.faults._replace(joins=world.faults.joins - 1)
                return self._start(world._replace(faults=faults), slot)

    def _give(self, world: World, slot: int, event: int) -> World:
        post = world.posts[slot]
        assert post is not None
        at, arguments = self.events[event]
        node, outputs = handle_event(self.program, post.node, at, arguments)
        post = post._replace(node=node, given=post.given | {event})
        posts = _put(world.posts, slot, post)
        due = ((0, slot // self.size), slot, event)
        return world._replace(posts=posts, outputs=_asked(slot, outputs), due=due)

    def _start(self, world: World, slot: int) -> World:
        number = world.started + 1
        node = make_node(self.program, address_of(slot), number)
        post = Post(node, number, (), frozenset())
        return self._change_views(
            world._replace(posts=_put(world.posts, slot, post), started=number)
        )

    def _change_views(self, world: World) -> World:
        layout = self.layout(world)
        known = {each.name: each for each in world.views}
        agents = {
            (name, post.number): domain
            for post in world.posts
            if post is not None
            for name, domain in post.led
        }
        led: dict[int, list[tuple[Name, Domain]]] = {}
        views: list[View] = []
        changed: set[Name] = set()
        for name, domain in sorted(layout.items()):
            before = known.get(name, View(name, 0, ()))
            agent = agents.get((name, domain.leader))
            if before.members != domain.members:
                changed.add(name)
                before = View(name, before.number + 1, domain.members)
                agent = None if agent is None else enter_view(agent, before.number)
            if agent is None:
                agent = self._agent(world, name, domain, before.number)
            views.append(before)
            led.setdefault(domain.leader, []).append((name, agent))
        # A domain that has died out keeps its number: its views go on from there.
        views += [View(name, old.number, ()) for name, old in known.items() if name not in layout]
        posts = tuple(
            None if post is None else post._replace(led=tuple(led.get(post.number, ())))
            for post in world.posts
        )
        late = tuple(
            each for each in world.late if each.name in layout and each.name not in changed
        )
        return world._replace(posts=posts, views=tuple(sorted(views)), late=late)

    def _agent(self, world: World, name: Name, domain: domains.Domain, view: int) -> Domain:
        post = world.posts[self._slot_of(world, domain.leader)]
        assert post is not None
        return make_domain(
            self.program,
            f"{name[0]}.{name[1]}",
            name[0] + 1,
            post.node.address,
            view,
            is_top=name == self.top,
        )

    # Rounds

    def _slot_of(self, world: World, number: int) -> int:
        return next(
            slot
            for slot, post in enumerate(world.posts)
            if post is not None and post.number == number
        )

    def members(self, world: World, name: Name) -> list[int]:
        """Return the slots of the nodes that are a domain's members or speak for them."""
        return [self._slot_of(world, n) for n in self.layout(world)[name].members]

    def _visit(self, world: World, name: Name, word: Word, slot: int) -> tuple[World, Report]:
        """Bring a word to the member of a domain that is at a slot."""
        members = self.members(world, name)
        place = members.index(slot)
        post = world.posts[slot]
        assert post is not None
        level = name[0]
        member = post.node if level == 0 else _led(post, (level - 1, slot // self.size**level))
        member, report, outputs = visit(self.program, member, word, place, len(members))
        if level == 0:
            post = post._replace(node=member)
        else:
            post = _with_led(post, (level - 1, slot // self.size**level), member)
        asked = world.outputs + _asked(slot, outputs)
        return world._replace(posts=_put(world.posts, slot, post), outputs=asked), report

    def _open(
        self, world: World, name: Name, unheard: tuple[int, ...], unanswered: tuple[int, ...]
    ) -> tuple[World, Late]:
        members = self.members(world, name)
        post = world.posts[members[0]]
        assert post is not None
        domain, word = open_round(self.program, _led(post, name))
        posts = _put(world.posts, members[0], _with_led(post, name, domain))
        world = world._replace(posts=posts)
        gathered: Report | None = None
        waiting: list[int] = []
        for slot in members:
            if slot in unheard:
                at = world.posts[slot]
                assert at is not None
                waiting.append(at.number)
                continue
            world, report = self._visit(world, name, word, slot)
            if slot not in unanswered:
                gathered = report if gathered is None else merge(self.program, gathered, report)
        assert gathered is not None
        return world, Late(name, word, gathered, tuple(waiting), is_over=False)

    def _close(self, world: World, late: Late) -> World:
        members = self.members(world, late.name)
        post = world.posts[members[0]]
        assert post is not None
        domain = close_round(
            self.program,
            _led(post, late.name),
            late.word.round,
            late.report,
            len(members),
            is_top=late.name == self.top,
        )
        posts = _put(world.posts, members[0], _with_led(post, late.name, domain))
        world = world._replace(posts=posts)
        return world._replace(has_begun=world.has_begun or self._is_going_on(world))

    def _arrive(self, world: World, which: int, slot: int) -> World:
        late = world.late[which]
        world, report = self._visit(world, late.name, late.word, slot)
        post = world.posts[slot]
        assert post is not None
        waiting = tuple(number for number in late.waiting if number != post.number)
        gathered = late.report if late.is_over else merge(self.program, late.report, report)
        return self._with_late(world, which, late._replace(report=gathered, waiting=waiting))

    def _with_late(self, world: World, which: int, late: Late) -> World:
        rest = [each for at, each in enumerate(world.late) if at != which]
        if late.waiting or not late.is_over:
            rest.insert(which, late)
        return world._replace(late=tuple(rest))

    # What one sees

    def observe(self, world: World) -> tuple[dict[str, Observed], list[Value | None]]:
        """Return nodes by address, and the values of the whole system."""
        layout = self.layout(world)
        agents = {
            name: domain for post in world.posts if post is not None for name, domain in post.led
        }
        observed: dict[str, Observed] = {}
        for slot, post in enumerate(world.posts):
            if post is None:
                continue
            standings = [post.node.standing]
            standings += [
                agents[level, slot // self.size ** (level + 1)].standing
                for level in range(self.height)
            ]
            values = [each.value for each in post.node.slots]
            is_regular = all(each is Standing.REGULAR for each in standings)
            observed[post.node.address] = Observed(values, is_regular)
        top = agents[self.top].slots if self.top in layout else ()
        return observed, [slot.value for slot in top]

    def is_over(self, world: World) -> bool:
        """Whether all who counted are gone, so that the protocol begins again: no claim goes
        beyond that."""
        return world.has_begun and self._is_beginning(world)

    def _is_beginning(self, world: World) -> bool:
        for post in world.posts:
            for name, domain in () if post is None else post.led:
                if name == self.top:
                    return domain.is_beginning
        return False

    def _is_going_on(self, world: World) -> bool:
        for post in world.posts:
            for name, domain in () if post is None else post.led:
                if name == self.top:
                    return domain.is_settled and not domain.is_beginning
        return False


def address_of(slot: int) -> str:
    """Return the name of a slot's nodes: a, b, c ..."""
    return chr(ord("a") + slot) if slot < 26 else f"n{slot}"


def _arguments(event: Event, slots: int, numbers: int) -> list[tuple[Value, ...]]:
    """Return arguments to try an event with."""
    found: list[tuple[Value, ...]] = [()]
    for _, kind in event.parameters:
        found = [(*some, value) for some in found for value in _samples(kind, slots, numbers)]
    return found


def _samples(kind: Kind, slots: int, numbers: int) -> list[Value]:
    match kind:
        case IntKind():
            return list(range(1, numbers + 1))
        case BoolKind():
            return [False, True]
        case AddressKind():
            return [address_of(slot) for slot in range(slots)]
        case IntSetKind():
            return [IntSet.of(number) for number in range(1, numbers + 1)]
        case _:
            return [default_of(kind)]


def _asked(slot: int, outputs: list[Output]) -> tuple[tuple[int, Asked], ...]:
    return tuple((slot, output) for output in outputs if isinstance(output, Asked))


def _put(posts: tuple[Post | None, ...], slot: int, post: Post | None) -> tuple[Post | None, ...]:
    return (*posts[:slot], post, *posts[slot + 1 :])


def _led(post: Post, name: Name) -> Domain:
    return next(domain for each, domain in post.led if each == name)


def _with_led(post: Post, name: Name, domain: Domain) -> Post:
    return post._replace(
        led=tuple((each, domain if each == name else old) for each, old in post.led)
    )
