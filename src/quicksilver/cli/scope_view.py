"""What ``scope tree`` and ``scope explain`` ask managers, and how they show the answers.

Each manager tells of its own scope only: rows of facts (``scopes.management.inspection``). Here
they are put together, from a manager down to its members, theirs, and so on. Everything that
comes is other people's text, and some of it may be untrue: how much is taken is limited, and
``output`` escapes what a terminal would obey.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from quicksilver.cli.output import plural
from quicksilver.net.frames import FrameDecoder, FrameError, encode_frame
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.messages import Row
from quicksilver.scopes.names import PARTS_MAX
from quicksilver.stdx.errors import QuicksilverError

ANSWER_S = 3.0
"""How long one manager may take."""

ROWS_MAX = 100_000
SCOPES_MAX = 10_000
"""Rows of one scope, and scopes, that are shown."""

HIDDEN = "cannot be dialled"
"""What managers tell in place of the address of such a member …"""

NOT_ASKED = "behind NAT: ask its manager there"
"""… and what is said of it."""

AT_ONCE = 64
"""Managers that are asked at the same time."""


class InspectError(QuicksilverError):
    """A manager cannot be asked."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(address, problem)
        self.address = address
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"no scope manager at {self.address} ({self.problem}); start one with "
            "`quicksilver scope run` or check the address"
        )


@dataclass(slots=True)
class Told:
    """One scope, and what its manager has told."""

    name: str
    address: str
    parent: str = ""
    problem: str = ""
    """Why nothing is known of it; empty: its manager has answered."""
    rows: list[Row] = field(default_factory=list)
    """An account of the scope …"""
    about: list[Row] = field(default_factory=list)
    """… and of the topic that was asked for."""
    below: list[Told] = field(default_factory=list)

    @property
    def facts(self) -> dict[str, str]:
        """What the manager says of the scope itself."""
        return next((row.facts for row in self.rows if row.kind == "scope"), {})

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Told]]:
        """Yield this scope and all below it, each with its depth."""
        yield depth, self
        for each in self.below:
            yield from each.walk(depth + 1)


Answer = TypeVar("Answer", bound=say.Message)


async def ask(address: str, topic: str = "") -> list[Row]:
    """Return what a manager tells of its scope, or of a topic in it. Raises ``InspectError``."""
    rows: list[Row] = []
    first = 0
    while True:
        page = await request(address, say.Inspect(topic, first), say.Inspected)
        rows += page.rows
        if page.next <= first or len(rows) >= ROWS_MAX:
            return rows
        first = page.next


async def request(address: str, question: say.Message, kind: type[Answer]) -> Answer:
    """Return what a manager answers to a question. Raises ``InspectError``."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await _request(address, question, kind)
    except TimeoutError:
        raise InspectError(address, f"no answer within {ANSWER_S:g} s") from None
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        words = os.strerror(number).lower() if number and number > 0 else str(error)
        raise InspectError(address, words or type(error).__name__) from None


async def _request(address: str, question: say.Message, kind: type[Answer]) -> Answer:
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and int(port[:6]) < 1 << 16):
        raise InspectError(address, "not HOST:PORT")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(encode_frame(say.encode(question)))
        return await _read_answer(reader, FrameDecoder(say.FRAME_BYTES_MAX), address, kind)
    finally:
        writer.close()


async def _read_answer(
    reader: asyncio.StreamReader, decoder: FrameDecoder, address: str, kind: type[Answer]
) -> Answer:
    while True:
        try:
            frame = decoder.next_frame()
        except FrameError:
            raise InspectError(address, "what answers there is no scope manager") from None
        if frame is None:
            data = await reader.read(1 << 16)
            if not data:
                raise InspectError(address, "it hung up, as a manager of another version would")
            decoder.push(data)
            continue
        message = say.parse(frame)
        if isinstance(message, kind):
            return message
        if isinstance(message, say.Refused):
            raise InspectError(address, message.reason)
        if message is None:
            raise InspectError(address, "what answers there is no scope manager")


async def look(manager: str, topic: str = "") -> Told:
    """Return a scope and all below it; with a topic, what each has to do with that.

    Raises:
        InspectError: the first manager does not answer. Others that do not are told of.
    """
    top = await _look_at(Told("", manager), topic)
    if top.problem:
        raise InspectError(manager, top.problem)
    level, seen, limit = [top], {top.name}, asyncio.Semaphore(AT_ONCE)

    async def one(told: Told) -> Told:
        async with limit:
            return await _look_at(told, topic)

    for _ in range(PARTS_MAX):
        below = []
        for told in level:
            for row in sorted(told.rows, key=lambda row: row.name):
                if row.kind == "member" and len(seen) < SCOPES_MAX and row.name not in seen:
                    seen.add(row.name)
                    member = Told(row.name, row.facts.get("address", ""), told.name)
                    told.below.append(member)
                    state = row.facts.get("state", "")
                    if state.startswith("away"):
                        member.problem = state
                    elif member.address == HIDDEN:
                        member.address, member.problem = "", NOT_ASKED
                    else:
                        below.append(member)
        level = [each for each in await asyncio.gather(*map(one, below)) if not each.problem]
        if not level:
            break
    return top


async def _look_at(told: Told, topic: str) -> Told:
    try:
        told.rows = await ask(told.address)
        name = next((row.name for row in told.rows if row.kind == "scope"), "")
        if told.name and name != told.name:
            told.problem, told.rows = f"{name or 'somebody'} answers there", []
        elif topic:
            told.about = await ask(told.address, topic)
        told.name = told.name or name
    except InspectError as error:
        told.problem = error.problem
    return told


def draw_tree(top: Told) -> list[str]:
    """Return lines that show scopes below each other."""
    lines = [_describe(top)]
    lines += _draw_owners(top)

    def draw(told: Told, indent: str) -> None:
        for place, each in enumerate(told.below, 1):
            is_last = place == len(told.below)
            lines.append(f"{indent}{'└─ ' if is_last else '├─ '}{_describe(each)}")
            draw(each, indent + ("   " if is_last else "│  "))

    draw(top, "")
    return lines


def _draw_owners(top: Told) -> list[str]:
    owners = [row for row in top.rows if row.kind == "owner"]
    return [
        f"   owned by {row.name} at {row.facts.get('address', '?')}, {row.facts.get('state', '?')}"
        for row in owners
    ]


def _describe(told: Told) -> str:
    if told.problem:
        return f"{f'{told.name}  {told.address}'.rstrip()}: {told.problem}"
    facts = told.facts
    if facts.get("role") == "node":
        return f"{told.name}  node at {told.address}"
    parts = [_count(facts.get("members", ""), "member"), _count(facts.get("topics", ""), "topic")]
    state = facts.get("state", "at work")
    if state != "at work":
        parts.append(state)
    return f"{told.name}  scope at {told.address}, {', '.join(parts)}"


def _count(number: str, noun: str) -> str:
    return plural(int(number), noun) if number.isascii() and number.isdigit() else f"? {noun}s"


def explain(top: Told, *, with_nodes: bool) -> list[str]:
    """Return lines that say, scope by scope, who does what for a topic and why."""
    lines = []
    for _, told in top.walk():
        is_node = told.facts.get("role") == "node"
        rows = [row for row in told.about if row.kind != "nothing"]
        if is_node and not with_nodes:
            continue
        if told.problem:
            where = f" at {told.address}" if told.address else ""
            lines.append(f"{told.name}{where}: {told.problem}")
        if not rows:
            continue
        lines.append(f"{told.name} ({told.facts.get('role', 'scope')} at {told.address})")
        lines += [f"  {_show(row)}" for row in rows]
    return lines


def _show(row: Row) -> str:
    facts = dict(row.facts)
    why = facts.pop("why", "")
    shown = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in facts.items())
    text = f"{row.kind} {row.name}"
    text += f": {shown}" if shown else ""
    return f"{text} ({why})" if why else text


def as_rows(top: Told) -> Iterator[dict[str, object]]:
    """Yield scopes as rows of JSON."""
    for depth, told in top.walk():
        row: dict[str, object] = {
            "name": told.name,
            "parent": told.parent,
            "depth": depth,
            "address": told.address,
        }
        if told.problem:
            yield row | {"problem": told.problem}
        else:
            yield row | {"facts": told.facts, "owners": _owners(told)}


def _owners(told: Told) -> list[dict[str, str]]:
    return [{"name": row.name, **row.facts} for row in told.rows if row.kind == "owner"]
