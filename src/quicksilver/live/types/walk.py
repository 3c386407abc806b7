"""Walking over types and rebuilding them with parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from quicksilver.live.types.model import Recur, Recursive, Term, UnionOf, ValueType, union_of

T = TypeVar("T", bound=Term)
_UNFOLDED = "unfolded"
_OPEN_BINDERS = "open binders"
_PLAIN_UNIONS = "plain unions"


def children(term: Term) -> Iterator[Term]:
    """Yield the terms directly inside one."""
    for name in term.__struct_fields__:
        part = getattr(term, name)
        if isinstance(part, Term):
            yield part
        elif isinstance(part, tuple):
            yield from (one for one in part if isinstance(one, Term))


def rebuild(term: Term, change: Callable[[Term], Term]) -> Term:
    """Return the term with each term directly inside it changed."""
    if isinstance(term, UnionOf):  # members may have become the same
        return union_of(tuple(change(one) for one in term.members))  # type: ignore[misc]  # a value stays a value
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


def without_unions_of_one(term: T) -> T:
    """Return the same type with no union of one left in it; kept, so that it costs once."""
    kept: T | None = term.__dict__.get(_PLAIN_UNIONS)
    if kept is None:
        found = any(isinstance(one, UnionOf) and len(one.members) == 1 for one in _walk(term))
        kept = _collapse(term) if found else term
        term.__dict__[_PLAIN_UNIONS] = kept
    return kept


def _collapse(term: T) -> T:
    if isinstance(term, UnionOf):
        return union_of(tuple(map(_collapse, term.members)))  # type: ignore[return-value]  # a value stays a value
    changes: dict[str, object] = {}
    for name in term.__struct_fields__:
        part = getattr(term, name)
        if isinstance(part, Term):
            changes[name] = _collapse(part)
        elif isinstance(part, tuple) and part and isinstance(part[0], Term):
            changes[name] = tuple(map(_collapse, part))
    return msgspec.structs.replace(term, **changes)


def _walk(term: Term) -> Iterator[Term]:
    pending = [term]
    while pending:
        one = pending.pop()
        yield one
        pending.extend(children(one))


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


def open_binders(term: Term) -> int:
    """Return how many binders around a term it may refer to: 0 if it refers to none."""
    kept: int | None = term.__dict__.get(_OPEN_BINDERS)
    if kept is None:
        if isinstance(term, Recur):
            kept = term.index + 1
        else:
            kept = max(map(open_binders, children(term)), default=0)
            kept = max(kept - 1, 0) if isinstance(term, Recursive) else kept
        term.__dict__[_OPEN_BINDERS] = kept
    return kept


def unfold(type_: Recursive) -> ValueType:
    """Return the body with every use of the type replaced by the type, once."""
    kept: ValueType | None = type_.__dict__.get(_UNFOLDED)
    if kept is None:

        def replace(part: Term, binders: int) -> Term | None:
            # Parts that refer to nothing outside are shared, not copied: a type with many
            # binders inside each other would grow twofold with each that is unfolded.
            if open_binders(part) <= binders:
                return part
            return type_ if isinstance(part, Recur) and part.index == binders else None

        kept = substitute(type_.body, replace)
        type_.__dict__[_UNFOLDED] = kept
    return kept
