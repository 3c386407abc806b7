"""The runner of blocks finds what is wrong on a page: it would be worth nothing otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.comparing import find_shown, is_shown
from tests.docs.parsing import Block, parse, parse_steps
from tests.docs.story import BlockError, Outcome, Story


def tell(text: str, folder: Path, *, runs_long: bool = False) -> list[Outcome]:
    with Story(folder, runs_long=runs_long) as story:
        return story.tell_blocks(parse("page.md", text))


def fence(language: str, body: str) -> str:
    return f"```{language}\n{body}```\n"


def test_blocks_know_their_place_and_their_directions() -> None:
    text = "# Title\n\n<!-- window: one -->\n<!-- numbers vary -->\n" + fence("console", "$ true\n")
    (block,) = parse("page.md", text)
    assert block == Block(
        page="page.md",
        line=5,
        language="console",
        text="$ true\n",
        directions={"window": ["one"], "numbers vary": [""]},
    )


def test_what_is_to_be_the_same_is_in_the_block() -> None:
    with pytest.raises(AssertionError, match="no '0 lost' in the block"):
        parse("page.md", "<!-- same: 0 lost -->\n" + fence("console", "$ true\n"))


def test_a_block_that_needs_a_package_is_run_where_it_is(tmp_path: Path) -> None:
    page = "<!-- needs: {} -->\n" + fence("python", "assert False\n")
    (outcome,) = tell(page.replace("{}", "no_such_package"), tmp_path)
    assert outcome.result == "not run here: it needs no_such_package"


@pytest.mark.slow
def test_numbers_vary_but_for_those_that_are_to_be_the_same(tmp_path: Path) -> None:
    """A page may show one run's counts, and still promise that nothing was lost."""
    page = "<!-- numbers vary -->\n<!-- same: 0 lost -->\n" + fence(
        "console", "$ echo 8 sent, {} lost\n7 sent, 0 lost\n"
    )
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
    tell(page.replace("{}", "0"), tmp_path / "good")
    with pytest.raises(BlockError, match="not shown: 0 lost"):
        tell(page.replace("{}", "1"), tmp_path / "bad")


def test_a_direction_that_belongs_to_no_block_is_an_error() -> None:
    with pytest.raises(AssertionError, match="not followed by a block"):
        parse("page.md", "<!-- window: one -->\nProse.\n")


def test_a_console_has_commands_and_what_they_show() -> None:
    first, second = parse_steps("$ one \\\n  more  # a remark\nshown\n$ two\n")
    assert (first.command, first.shown) == ("one \\\n  more", "shown\n")
    assert (second.command, second.shown) == ("two", "")


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("sent 2 messages", "sent 2 messages\n", True),
        ("sent 2 messages", "sent 3 messages\n", False),
        ("sent 2 messages", "sent 2 messages\nand more\n", False),
        ("a line\nbroken", "a line broken", True),
        ("took 0.05 s", "took 12 ms", True),
        ("37.4 msg/s", "1.2 kmsg/s", True),
        ("node ... is here", "node 7 is here", True),
        ("node ... is here", "node 7 is gone", False),
        ("first\n...\nlast", "first\nlast", True),
        ("(a|b)", "a", False),
    ],
)
def test_measurements_may_differ_and_nothing_else(shown: str, printed: str, same: bool) -> None:
    assert is_shown(shown, printed) is same


def test_numbers_may_vary_where_a_page_says_so() -> None:
    assert is_shown("lost 71 got 67", "lost 5 got 6", vary=True)
    assert not is_shown("lost 71 got 67", "lost 5 gave 6", vary=True)
    # A digest that ends with a digit, and the comma behind it.
    assert is_shown("digest ..., 5 in all", "digest 0ab2, 7 in all", vary=True)


def test_lines_are_taken_as_soon_as_they_are_what_is_shown() -> None:
    assert find_shown("b\nc", ["b", "c", "d"]) == 2
    assert find_shown("...\nc", ["a", "b", "c", "d"]) == 3
    assert find_shown("b\nc", ["b"]) is None


@pytest.mark.slow
def test_what_a_page_shows_is_compared(tmp_path: Path) -> None:
    (outcome,) = tell(fence("console", "$ echo 1 2\n1 2\n"), tmp_path)
    assert outcome.result == "run"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (fence("console", "$ echo 1\n2\n"), "other output"),
        (fence("console", "$ false\n"), "exit code 1"),
        ("<!-- exit code: 3 -->\n" + fence("console", "$ false\n"), "exit code 1"),
        (fence("python", "1 / 0\n"), "it raised"),
        (fence("python", ">>> 1 + 1\n3\n"), "it raised"),
        (fence("python", "print(1)\n") + fence("text", "2\n"), "something else"),
        ("<!-- program -->\n" + fence("python", "raise SystemExit(2)\n"), "exit code 2"),
        ("<!-- window: one -->\n" + fence("console", "$ echo 1\n2\n"), "not shown"),
        (
            "<!-- window: one -->\n"
            + fence("console", "$ cat\n> 1\n")
            + "<!-- in: one -->\n<!-- without: 1 -->\n"
            + fence("text", "1\n"),
            "'1' was shown",
        ),
    ],
)
def test_what_is_wrong_on_a_page_is_found(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(BlockError, match=problem):
        tell(text, tmp_path)


@pytest.mark.slow
def test_blocks_of_python_share_a_namespace(tmp_path: Path) -> None:
    text = fence("python", "one = 1\n") + fence("python", ">>> one + 1\n2\n")
    assert [outcome.result for outcome in tell(text, tmp_path)] == ["run", "run"]


@pytest.mark.slow
def test_a_window_goes_on_and_is_typed_into(tmp_path: Path) -> None:
    text = (
        "<!-- window: one -->\n"
        + fence("console", "$ cat\n> first\nfirst\n")
        + "<!-- in: one -->\n"
        + fence("text", "> second\nsecond\n")
    )
    tell(text, tmp_path)


@pytest.mark.slow
def test_files_and_folders_stay_from_block_to_block(tmp_path: Path) -> None:
    text = (
        "<!-- save as: deep/hello.py -->\n"
        + fence("python", "print('hello')\n")
        + fence("console", "$ cd deep\n$ python hello.py\nhello\n")
    )
    tell(text, tmp_path)


def test_what_is_long_or_not_run_says_why(tmp_path: Path) -> None:
    text = (
        "<!-- long: an hour -->\n"
        + fence("console", "$ false\n")
        + "<!-- not run: it installs -->\n"
        + fence("console", "$ false\n")
    )
    results = [outcome.result for outcome in tell(text, tmp_path)]
    assert results == ["long: an hour", "not run: it installs"]
