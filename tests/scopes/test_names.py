"""Names of scopes and topics."""

from __future__ import annotations

import pytest

from quicksilver.scopes.names import (
    NAME_BYTES_MAX,
    PARTS_MAX,
    find_scope_name_problem,
    find_topic_name_problem,
    root_of,
)


@pytest.mark.parametrize("name", ["campus", "campus/library", "room2", "räume/erster_stock"])
def test_good_scope_names(name: str) -> None:
    assert find_scope_name_problem(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/campus",
        "campus/",
        "a//b",
        "a-b",
        "a:b",
        "a,b",
        "a b",
        "a\x1b[31m",
        "a/*",
        "x" * (NAME_BYTES_MAX + 1),
        "/".join(["a"] * (PARTS_MAX + 1)),
        "\ud800",
    ],
)
def test_bad_scope_names_are_named_in_one_line(name: str) -> None:
    problem = find_scope_name_problem(name)
    assert problem is not None
    assert "\n" not in problem
    assert problem.isprintable()


def test_a_topic_names_its_root() -> None:
    """A topic has one root scope, and everybody knows which."""
    assert root_of("campus/library/news") == "campus/library"
    assert find_topic_name_problem("campus/news") is None
    problem = find_topic_name_problem("news")
    assert problem is not None
    assert "SCOPE/news" in problem
