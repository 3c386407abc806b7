"""Quantities as people write and read them: ``64MiB``, ``20ms``, ``1.3 MB/s``."""

from __future__ import annotations

import re
from math import isfinite

_BYTE_UNITS = {
    "": 1,
    "b": 1,
    "k": 1000,
    "kb": 1000,
    "m": 1000**2,
    "mb": 1000**2,
    "g": 1000**3,
    "gb": 1000**3,
    "t": 1000**4,
    "tb": 1000**4,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}

_SECOND_UNITS = {
    "": 1.0,
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zµ]*)\s*", re.IGNORECASE)

_TEXT_CHARS_MAX = 40
"""A longer text is no quantity, and is not worth quoting in full."""


def parse_bytes(text: str) -> int:
    """Return the number of bytes in ``"64MiB"``, ``"1k"`` or ``"1000"``.

    ``k``, ``M``, ``G`` and ``T`` are powers of 1000; ``Ki``, ``Mi`` ... with a
    final ``B`` are powers of 1024. Case does not matter.
    """
    number, unit = _split(text, "a size such as 64MiB, 1k or 1000")
    if unit.lower() not in _BYTE_UNITS:
        raise ValueError(
            f"unknown unit {unit!r} in {text!r}: use B, k, M, G, T, KiB, MiB, GiB, TiB"
        )
    factor = _BYTE_UNITS[unit.lower()]
    if "." not in number:
        return int(number) * factor
    size = float(number) * factor
    if size != int(size):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(size)


def parse_seconds(text: str) -> float:
    """Return the seconds in ``"20ms"``, ``"1.5 s"``, ``"2min"`` or ``"3"``."""
    number, unit = _split(text, "a time such as 20ms, 1.5s or 2min")
    if unit.lower() not in _SECOND_UNITS:
        raise ValueError(f"unknown unit {unit!r} in {text!r}: use ns, us, ms, s, min, h or d")
    return float(number) * _SECOND_UNITS[unit.lower()]


def format_bytes(count: float) -> str:
    """Return a size in binary units, such as ``"64 MiB"`` or ``"1.5 KiB"``."""
    if not isfinite(count):
        return f"{count} B"
    if count < 0:
        return "-" + format_bytes(-count)
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        # 1023.96 KiB would be printed as 1024 KiB: it belongs to the next unit.
        if float(_short(size)) < 1024:
            return f"{_short(size)} {unit}"
        size /= 1024
    return f"{_short(size)} TiB"


def format_rate(per_second: float, unit: str = "B") -> str:
    """Return a rate in decimal units, such as ``"1.3 MB/s"`` or ``"930 kmsg/s"``."""
    if not isfinite(per_second):
        return f"{per_second} {unit}/s"
    if per_second < 0:
        return "-" + format_rate(-per_second, unit)
    rate = float(per_second)
    for prefix in ("", "k", "M", "G"):
        if float(_short(rate)) < 1000:
            return f"{_short(rate)} {prefix}{unit}/s"
        rate /= 1000
    return f"{_short(rate)} T{unit}/s"


def format_seconds(seconds: float) -> str:
    """Return a time, such as ``"20 ms"``, ``"1.5 s"`` or ``"2 min 5 s"``."""
    if not isfinite(seconds):
        return f"{seconds} s"
    if seconds < 0:
        return "-" + format_seconds(-seconds)
    if seconds == 0:
        return "0 s"
    if seconds >= 59.95:
        whole = round(seconds)
        hours, rest = divmod(whole, 3600)
        minutes, rest = divmod(rest, 60)
        if hours:
            return f"{hours} h {minutes} min"
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    scaled = seconds * 1e9
    for unit in ("ns", "µs", "ms"):
        if float(_short(scaled)) < 1000:
            return f"{_short(scaled)} {unit}"
        scaled /= 1000
    return f"{_short(scaled)} s"


def _split(text: str, wanted: str) -> tuple[str, str]:
    shown = text if len(text) <= _TEXT_CHARS_MAX else text[:_TEXT_CHARS_MAX] + "..."
    match = _QUANTITY.fullmatch(text) if len(text) <= _TEXT_CHARS_MAX else None
    if match is None:
        raise ValueError(f"{shown!r} is not {wanted}")
    return match.group(1), match.group(2)


def _short(value: float) -> str:
    """Three significant digits at most, without trailing zeros."""
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
