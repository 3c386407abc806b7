"""Filters decide for each message, the same everywhere, within bounds."""

from __future__ import annotations

import msgspec
import pytest

from quicksilver.scopes.dissemination.filters import (
    ALL,
    DEPTH_MAX,
    PARTS_MAX,
    TEXT_BYTES_MAX,
    Attribute,
    BadFilterError,
    Both,
    Chance,
    Facts,
    Filter,
    Modulo,
    Tagged,
    compile_filter,
)


def numbers(rule: Filter, count: int = 1000) -> list[int]:
    passes = compile_filter(rule)
    return [n for n in range(count) if passes(Facts(n, {})) is not None]


def test_all_passes_everything() -> None:
    assert numbers(ALL, 10) == list(range(10))


def test_modulo_filters_share_the_messages() -> None:
    """Dissertation 3.2.4: "sub-scope k would only forward messages with numbers m such that
    m mod n = k"."""
    shares = [numbers(Modulo(3, k), 30) for k in range(3)]
    assert sorted(n for share in shares for n in share) == list(range(30))
    assert shares[1][:3] == [1, 4, 7]


def test_lots_are_drawn_from_the_number_and_the_salt() -> None:
    """The same message is judged alike on every node, and after a restart."""
    some = numbers(Chance(0.25, salt=7))
    assert some == numbers(Chance(0.25, salt=7))
    assert 180 < len(some) < 320
    assert some != numbers(Chance(0.25, salt=8))
    assert numbers(Chance(0.0)) == []
    assert len(numbers(Chance(1.0))) == 1000


def test_attributes_are_compared() -> None:
    passes = compile_filter(Attribute("region", ("eu", "us")))
    assert passes(Facts(0, {"region": "eu"})) is not None
    assert passes(Facts(0, {"region": "asia"})) is None
    assert passes(Facts(0, {})) is None


def test_a_tag_is_seen_by_filters_after_it() -> None:
    """Figure 3.12: a filter "might optionally tag the message in transit"."""
    tagged = Tagged(Modulo(2, 0), "stripe", "even")
    passes = compile_filter(Both((tagged, Attribute("stripe", ("even",)))))
    assert passes(Facts(4, {"a": "b"})) == {"a": "b", "stripe": "even"}
    assert passes(Facts(5, {})) is None
    assert compile_filter(Both((Attribute("stripe", ("even",)), tagged)))(Facts(4, {})) is None


def nested(depth: int) -> Filter:
    rule: Filter = ALL
    for _ in range(depth):
        rule = Both((rule,))
    return rule


@pytest.mark.parametrize(
    "rule",
    [
        Modulo(0, 0),
        Modulo(3, 3),
        Modulo(3, -1),
        Chance(1.5),
        Chance(-0.1),
        Chance(float("nan")),
        Attribute("x" * (TEXT_BYTES_MAX + 1), ("a",)),
        Attribute("x", ("a",) * PARTS_MAX),
        Tagged(ALL, "t", "\N{EURO SIGN}" * 100),
        Both((ALL,) * PARTS_MAX),
        nested(DEPTH_MAX),
    ],
)
def test_what_makes_no_sense_or_is_too_large_is_refused(rule: Filter) -> None:
    """Filters come from scopes that one need not trust."""
    with pytest.raises(BadFilterError) as caught:
        compile_filter(rule)
    assert "\n" not in str(caught.value)


def test_filters_travel_as_data() -> None:
    rule = Both((Modulo(4, 1), Tagged(Chance(0.5, 3), "lot", "yes")))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(rule), type=Filter) == rule
