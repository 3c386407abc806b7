"""Walking over types and rebuilding them with parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from quicksilver.live.types.model import Recur, Recursive, Term, ValueType

T = TypeVar("T", bound=Term)
_UNFOLDED = "unfolded"


def children(term: Term) -> Iterator[Term]:
    """Yield the terms directly inside one."""
    for name in term.__struct_fields__:
        part = getattr(term, name)
        if isinstance(part, Term):
            yield part
        elif isinstance(part, tuple):
            yield from (one for one in part if isinstance(one, Term))


def rebuild(term: T, change: Callable[[Term], Term]) -> T:
    """Return the term with each term directly inside it changed."""
    changes: dict[str, object] = {}
    for name in term.__struct_fields__:
        part = getattr(term, name)
        if isinstance(part, Term):
            new: object = change(part)
        elif isinstance(part, tuple) and part and isinstance(part[0], Term):
            new = tuple(map(change, part))
        else:
            continue
        if new != part:
            changes[name] = new
    return msgspec.structs.replace(term, **changes) if changes else term


def substitute(term: T, replace: Callable[[Term, int], Term | None], binders: int = 0) -> T:
    """Return the term with parts replaced.

    ``replace`` is asked about every part, from the outside in, with the number of
    binders around it, and returns what takes its place, or None to look inside.
    """

    def change(part: Term, depth: int) -> Term:
        replaced = replace(part, depth)
        if replaced is not None:
            return replaced
        inner = depth + 1 if isinstance(part, Recursive) else depth
        return rebuild(part, lambda below: change(below, inner))

    return change(term, binders)  # type: ignore[return-value]  # a value stays a value


def unfold(type_: Recursive) -> ValueType:
    """Return the body with every use of the type replaced by the type, once."""
    kept: ValueType | None = type_.__dict__.get(_UNFOLDED)
    if kept is None:

        def replace(part: Term, binders: int) -> Term | None:
            return type_ if isinstance(part, Recur) and part.index == binders else None

        kept = substitute(type_.body, replace)
        type_.__dict__[_UNFOLDED] = kept
    return kept
