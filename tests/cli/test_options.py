"""Who joins what, as ``up`` and ``demo`` read it."""

from __future__ import annotations

import pytest

from quicksilver.cli.options import GroupSpecError, groups_of, parse_groups


def test_ranges_lists_and_everybody() -> None:
    """The three ways to name members, side by side."""
    groups = parse_groups("a:0-3, b:2-4+6 ,c", 7)
    assert groups == {"a": (0, 1, 2, 3), "b": (2, 3, 4, 6), "c": (0, 1, 2, 3, 4, 5, 6)}
    assert groups_of(groups, 6) == ["b", "c"]
    assert groups_of(groups, 0) == ["a", "c"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no group is named"),
        (" , ", "no group is named"),
        ("a:0,a:1", "given twice"),
        (":0", "empty"),
        ("a:x", "neither a node nor a range"),
        ("a:", "neither a node nor a range"),
        ("a:3-1", "backwards"),
        ("a:0-9", "no node 9"),
        ("a:-1", "neither a node nor a range"),
    ],
)
def test_mistakes_are_named_with_an_example(text: str, words: str) -> None:
    """The line must say what is wrong and show how it is written."""
    with pytest.raises(GroupSpecError) as caught:
        parse_groups(text, 4)
    assert words in str(caught.value)
    assert "write for example" in str(caught.value)
