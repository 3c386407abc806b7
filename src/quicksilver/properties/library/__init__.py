"""Programs that are ready to use, each a file ``*.pl`` with what it claims of itself."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

SUFFIX = ".pl"


@cache
def names() -> tuple[str, ...]:
    """Return the names of the programs, such as ``cleanup``, in alphabetical order."""
    found = (one.name for one in files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(SUFFIX) for name in found if name.endswith(SUFFIX)))


def text_of(name: str) -> str:
    """Return the text of a program; KeyError if there is none of that name."""
    if name not in names():
        raise KeyError(name)
    return files(__name__).joinpath(name + SUFFIX).read_text(encoding="utf-8")
