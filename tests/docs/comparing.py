"""Whether a program printed what a page shows.

White space does not matter: lines of a page are broken to fit it, and tables align
themselves. ``...`` stands for anything. Times, rates and sizes, numbers with such a unit,
may be other ones; all other numbers must be the same unless the page says that they vary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_TIME = re.compile(r"\b\d[\d,.]* ?(?:s|ms|µs|us|min)\b")
_RATE = re.compile(r"\b\d[\d,.]* ?[kM]?(msg|rows|seeds|messages|B)/s\b")
_SIZE = re.compile(r"\b\d[\d,.]* ?[KMGkB]i?B\b")
_WAITING = re.compile(
    r"^quicksilver: waiting for the (?:GMS|manager of scope \S+) at \S+\n?", re.MULTILINE
)
"""What commands say on a machine that is busy just then."""
_NUMBER = re.compile(r"\d(?:[\d,.]*\d)?[kM]?")
"""A comma or a full stop behind it is the sentence's."""
_ANYTHING = re.compile(r"\.\.\.|…")


def is_shown(shown: str, printed: str, *, vary: bool = False, any_order: bool = False) -> bool:
    """Whether all that was printed is what is shown."""
    if any_order:
        shown, printed = ("\n".join(sorted(one.splitlines())) for one in (shown, printed))
    return _pattern(shown, vary=vary, end=r"\s*\Z").match(_plain(printed, vary=vary)) is not None


def find_absent(texts: Iterable[str], printed: str) -> str | None:
    """Return the first text that was not printed word for word; None if all were."""
    words = " ".join(printed.split())
    return next((text for text in texts if " ".join(text.split()) not in words), None)


def find_shown(shown: str, printed: list[str], *, known: int = 0, vary: bool = False) -> int | None:
    """How many of the first lines are what is shown; None if they are not, or not yet.

    Of the first ``known`` lines it is known already that they are not.
    """
    pattern = _pattern(shown, vary=vary, end=r"\s*\Z")
    # The last line alone rules nearly all counts out, at once; thousands of lines may come.
    last = _pattern(shown.strip().splitlines()[-1], vary=vary, end=r"\s*\Z")
    for count in range(known + 1, len(printed) + 1):
        if not last.search(_plain(printed[count - 1], vary=vary)):
            continue
        if pattern.match(_plain("\n".join(printed[:count]), vary=vary)):
            return count
    return None


def _plain(text: str, *, vary: bool) -> str:
    text = _WAITING.sub("", text)
    text = _SIZE.sub("0 B", _RATE.sub(r"0 \1/s", _TIME.sub("0 s", text)))
    return _NUMBER.sub("0", text) if vary else text


def _pattern(shown: str, *, vary: bool, end: str) -> re.Pattern[str]:
    parts = _ANYTHING.split(_plain(shown, vary=vary))
    plain = [r"\s+".join(map(re.escape, part.split())) for part in parts]
    # White space next to what is left out belongs to it.
    return re.compile(r"\s*" + r"\s*.*?\s*".join(plain) + end, re.DOTALL)
