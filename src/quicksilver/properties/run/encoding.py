"""Messages of agents as bytes, and back: MessagePack, with every part checked when it is read.

What comes from the network is read as what the program says it must be. ``parse_message`` returns
None for anything else; nothing that arrives can make a node do more work than its length allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from quicksilver.properties.plan import Plan
from quicksilver.properties.run.rounds import Content, Record
from quicksilver.properties.run.state import Gathered, Report, Slot, Standing, Version, Word
from quicksilver.properties.values.encoding import (
    ADDRESS_CHARACTERS_MAX,
    encode_value,
    parse_int,
    parse_list,
    parse_value,
)
from quicksilver.properties.values.kinds import Kind
from quicksilver.recovery import rounds
from quicksilver.recovery.agent import Message
from quicksilver.recovery.domains import Name

MEMBERS_MAX = 64
"""Members of a domain: a set of them is a number of so many bits."""
LEVELS_MAX = 16
INSTANCES_MAX = 65_536
MESSAGE_BYTES_MAX = 4 << 20
COUNT_MAX = (1 << 63) - 1

Plans = Mapping[int, Plan]
"""Programs by instance: what is said of others is not understood."""


def encode_message(message: Message[Content]) -> bytes:
    """Return the bytes of a message; of the kinds that lists of wanted things do not need."""
    head = [*message.domain, message.origin]
    match message:
        case rounds.Token():
            content = None if message.content is None else _encode_content(message.content)
            skipped = list(message.skipped)
            about = [message.round, message.leader, skipped, message.is_confirmed, content]
            return msgspec.msgpack.encode(["token", *head, *about])
        case rounds.Wake():
            return msgspec.msgpack.encode(["wake", *head])
        case rounds.Receipt():
            return msgspec.msgpack.encode(["receipt", *head, message.leader, message.round])
        case rounds.Report():
            # Who asked knows what it said.
            content = _encode_content(message.content, has_words=False)
            about = [message.round, message.leader, list(message.absent), content]
            return msgspec.msgpack.encode(["report", *head, *about])
        case _:
            raise TypeError(f"rounds about properties have no {type(message).__name__}")


def parse_message(data: bytes, plans: Plans) -> Message[Content] | None:
    """Read a message; None if no honest node wrote it, or not about these programs."""
    if len(data) > MESSAGE_BYTES_MAX:
        return None
    try:
        parts = parse_list(msgspec.msgpack.decode(data), 10)
        match parts:
            case ["token", level, place, origin, round_, leader, skipped, bool(confirmed), content]:
                return rounds.Token(
                    _name(level, place),
                    _count(round_),
                    _count(leader),
                    _count(origin),
                    _counts(skipped),
                    None if content is None else _parse_content(content, plans),
                    is_confirmed=confirmed,
                )
            case ["wake", level, place, origin]:
                return rounds.Wake(_name(level, place), _count(origin))
            case ["receipt", level, place, origin, leader, round_]:
                name = _name(level, place)
                return rounds.Receipt(name, _count(origin), _count(leader), _count(round_))
            case ["report", level, place, origin, round_, leader, absent, content]:
                return rounds.Report(
                    _name(level, place),
                    _count(round_),
                    _count(leader),
                    _count(origin),
                    _counts(absent),
                    _parse_content(content, plans),
                )
            case _:
                return None
    except (ValueError, msgspec.MsgspecError, RecursionError):
        return None


# Contents


def _encode_content(content: Content, *, has_words: bool = True) -> Any:
    records = [
        [number, _encode_word(record.word, is_whole=has_words), _encode_report(record.report)]
        for number, record in content.records.items()
    ]
    return [content.view, records, sorted(content.woken)]


def _encode_word(word: Word, *, is_whole: bool) -> Any:
    if not is_whole:
        return [word.view, word.round]
    slots = [[encode_value(slot.value), *slot.version] for slot in word.slots]
    standings = [int(each) for each in word.standings]
    compared = _encode_compared(word.compared)
    return [word.view, word.round, word.is_beginning, standings, slots, compared]


def _encode_report(report: Report) -> Any:
    gathered = [[encode_value(each.value), each.givers] for each in report.gathered]
    bits = [report.heard, report.regular, report.unknown, report.latest]
    above = [int(each) for each in report.above]
    return [*bits, above, gathered, report.is_changed, _encode_compared(report.compared)]


def _encode_compared(compared: Sequence[tuple[str, tuple[Any, ...]]]) -> Any:
    return [[address, [encode_value(value) for value in values]] for address, values in compared]


def _parse_content(plain: Any, plans: Plans) -> Content:
    view, listed, woken = _exactly(plain, 3)
    records: dict[int, Record] = {}
    for each in parse_list(listed, INSTANCES_MAX):
        number, word, report = _exactly(each, 3)
        plan = plans.get(_count(number))
        if plan is not None:
            records[number] = Record(_parse_word(word, plan), _parse_report(report, plan))
    known = frozenset(_count(each) for each in parse_list(woken, INSTANCES_MAX))
    return Content(_count(view), records, known & plans.keys())


def _parse_word(plain: Any, plan: Plan) -> Word:
    parts = parse_list(plain, 6)
    if len(parts) == 2:
        return Word(_count(parts[0]), _count(parts[1]), False, (), ())
    view, round_, is_beginning, standings, slots, compared = _exactly(parts, 6)
    kinds = [plan.properties[at].kind for at in plan.announced]
    return Word(
        _count(view),
        _count(round_),
        _flag(is_beginning),
        _standings(standings),
        tuple(_slot(each, k) for each, k in zip(_exactly(slots, len(kinds)), kinds, strict=True)),
        _parse_compared(compared, plan),
    )


def _parse_report(plain: Any, plan: Plan) -> Report:
    heard, regular, unknown, latest, above, gathered, is_changed, compared = _exactly(plain, 8)
    kinds = [plan.properties[at].kind for at in _gathered_of(plan)]
    listed = parse_list(gathered, len(kinds))
    if listed and len(listed) != len(kinds):
        raise ValueError("reports something else")
    bits = (1 << MEMBERS_MAX) - 1
    return Report(
        parse_int(heard, 0, bits),
        parse_int(regular, 0, bits) & heard,
        parse_int(unknown, 0, bits) & heard,
        _count(latest),
        _standings(above),
        tuple(_gathered(each, kind) for each, kind in zip(listed, kinds, strict=False)),
        _flag(is_changed),
        _parse_compared(compared, plan),
    )


def _gathered_of(plan: Plan) -> list[int]:
    """Return what a report's values are of: as ``run.program`` lists them."""
    found = {
        (rule.aggregation, rule.is_strict): rule.aggregation.property
        for rule in plan.rules
        if rule.aggregation is not None
    }
    return list(found.values())


def _gathered(plain: Any, kind: Kind) -> Gathered:
    value, givers = _exactly(plain, 2)
    count = parse_int(givers, 0, MEMBERS_MAX)
    if not count:
        return Gathered(None, 0)
    return Gathered(parse_value(value, kind), count)


def _parse_compared(plain: Any, plan: Plan) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    kinds = [plan.properties[at].kind for at in plan.compared]
    found: list[tuple[str, tuple[Any, ...]]] = []
    for each in parse_list(plain, MEMBERS_MAX if kinds else 0):
        address, values = _exactly(each, 2)
        if not isinstance(address, str) or len(address) > ADDRESS_CHARACTERS_MAX:
            raise ValueError("not an address")
        pairs = zip(_exactly(values, len(kinds)), kinds, strict=True)
        found.append((address, tuple(None if v is None else parse_value(v, k) for v, k in pairs)))
    return tuple(found)


def _slot(plain: Any, kind: Kind) -> Slot:
    value, height, view, number = _exactly(plain, 4)
    version = Version(parse_int(height, 0, LEVELS_MAX), _count(view), _count(number))
    return Slot(None if value is None else parse_value(value, kind), version)


def _standings(plain: Any) -> tuple[Standing, ...]:
    return tuple(Standing(parse_int(each, 0, 2)) for each in parse_list(plain, LEVELS_MAX))


def _name(level: Any, place: Any) -> Name:
    return parse_int(level, 0, LEVELS_MAX), _count(place)


def _count(plain: Any) -> int:
    return parse_int(plain, 0, COUNT_MAX)


def _counts(plain: Any) -> tuple[int, ...]:
    return tuple(_count(each) for each in parse_list(plain, MEMBERS_MAX))


def _flag(plain: Any) -> bool:
    if not isinstance(plain, bool):
        raise ValueError("not a bool")
    return plain


def _exactly(plain: Any, count: int) -> list[Any]:
    parts = parse_list(plain, count)
    if len(parts) != count:
        raise ValueError("too few parts")
    return parts
