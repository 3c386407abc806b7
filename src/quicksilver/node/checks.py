"""What users pass to the API, checked at the call: which argument, and what would be right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from quicksilver.membership.names import check_group_name, check_pattern
from quicksilver.membership.patterns import is_pattern
from quicksilver.multicast.sending.behind import Behind, Drop, Keep, Wait, parse_behind
from quicksilver.node.errors import OptionError


def check_choice(option: str, value: object, choices: Sequence[str]) -> None:
    """Raise OptionError unless the value is one of the choices."""
    if value not in choices:
        named = ", ".join(repr(choice) for choice in choices[:-1]) + f" or {choices[-1]!r}"
        raise OptionError(option, f"must be {named}, not {value!r}{_near(value, choices)}")


def check_bytes(option: str, value: object) -> None:
    """Raise OptionError unless the value is a positive number of bytes."""
    check_count(option, value, "bytes")


def check_count(option: str, value: object, noun: str, least: int = 1) -> None:
    """Raise OptionError unless the value is a whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(option, f"must be a number of {noun}, at least {least}, not {value!r}")


def check_seconds(
    option: str, value: object, *, allow_none: bool = False, allow_zero: bool = True
) -> None:
    """Raise OptionError unless the value is a number of seconds."""
    if value is None and allow_none:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and math.isfinite(value) and (value > 0 or (allow_zero and value == 0)):  # type: ignore[arg-type,operator]  # a number
        return
    least = "0 or more" if allow_zero else "more than 0"
    none = ", or None" if allow_none else ""
    raise OptionError(option, f"must be a number of seconds, {least}{none}, not {value!r}")


def check_flag(option: str, value: object) -> None:
    """Raise OptionError unless the value is True or False."""
    if not isinstance(value, bool):
        raise OptionError(option, f"must be True or False, not {value!r}")


def check_callback(option: str, value: object) -> None:
    """Raise OptionError unless the value can be called."""
    if not callable(value):
        raise OptionError(option, f"must be a function, not {value!r}")


def check_names(names: object, *, allow_patterns: bool = False) -> list[str]:
    """Return the names of groups in a list; raises OptionError or BadGroupNameError."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise OptionError("names", f"must be a list of names, not {names!r}")
    found = list(names)
    for name in found:
        if allow_patterns and isinstance(name, str) and is_pattern(name):
            check_pattern(name)
        else:
            check_group_name(name)
    if len(set(found)) != len(found):
        twice = next(name for place, name in enumerate(found) if name in found[:place])
        raise OptionError("names", f"must have each group once, and {twice!r} is there twice")
    return found


def check_behind(behind: Behind | str | None) -> Behind | None:
    """Return a choice given as such or as text; raises OptionError."""
    if behind is None or isinstance(behind, Wait | Keep | Drop):
        return behind
    if not isinstance(behind, str):
        raise OptionError("behind", f"must be Wait(), Keep() or Drop(), not {behind!r}")
    try:
        return parse_behind(behind)
    except ValueError as error:
        raise OptionError("behind", str(error)) from None


def check_type(type_: object) -> None:
    """Raise OptionError unless messages can be of a type."""
    if type_ is None:
        return
    if isinstance(type_, str) or not (
        isinstance(type_, type) or hasattr(type_, "__origin__") or hasattr(type_, "__args__")
    ):
        raise OptionError("type_", f"must be a type, such as a msgspec.Struct, not {type_!r}")
    try:
        msgspec.msgpack.Decoder(type_)
    except TypeError as error:
        raise OptionError("type_", f"cannot be sent: {error}") from None


def check_options(given: dict[str, Any], known: Sequence[str]) -> None:
    """Raise OptionError for a keyword that is no option."""
    for name in given:
        if name not in known:
            raise OptionError(name, f"is no option of connect{_near(name, known)}")


def _near(value: object, choices: Sequence[str]) -> str:
    import difflib  # for mistakes only: it takes milliseconds at the start

    found = difflib.get_close_matches(value, choices, 1) if isinstance(value, str) else []
    return f"; did you mean {found[0]!r}?" if found else ""
