"""Options of the connector, named and meant as those of Spark's Kafka source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from quicksilver.node.errors import AddressError
from quicksilver.node.options import parse_gms_address
from quicksilver.recorder.folders import recorded_groups
from quicksilver.spark.errors import OptionError

EARLIEST = -2
LATEST = -1

Start: TypeAlias = Literal["earliest", "latest"] | dict[str, int]

_READ_OPTIONS = (
    "path",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "includeSender",
    "consumer",
    "schema",
)
_WRITE_OPTIONS = (
    "gms",
    "topic",
    "order",
    "minMembers",
    "recorders",
    "flushTimeoutSeconds",
    "quicksilver.interface",
    "checkpointLocation",
    "path",
)
_CHOICES = ("subscribe", "subscribePattern", "assign")


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to read, and how."""

    path: str
    subscribe: tuple[str, ...] = ()
    pattern: str | None = None
    starting: Start
    starting_us: int | None = None
    ending: Start = "latest"
    ending_us: int | None = None
    rows_max: int | None = None
    partitions_min: int = 1
    fails_on_loss: bool = True
    includes_headers: bool = False
    includes_sender: bool = False
    consumer: str | None = None
    """Whose committed offsets hold the recorder's retention back."""
    schema: str | None = None

    def groups(self) -> list[str]:
        """Return the groups that are read, those of a pattern as they are now."""
        if self.pattern is None:
            return list(self.subscribe)
        known = recorded_groups(Path(self.path))
        return [group for group in known if re.fullmatch(self.pattern, group)]


def parse_source_options(given: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """Read options as Spark hands them over; raises OptionError for the first that is wrong."""
    options = _known(given, _READ_OPTIONS)
    path = options.get("path")
    if not path:
        raise OptionError(
            "option path: say where the recording is, as `quicksilver record --path` did"
        )
    chosen = [name for name in _CHOICES if options.get(name)]
    if len(chosen) != 1:
        said = " and ".join(chosen) if chosen else "none"
        raise OptionError(f"give exactly one of subscribe, subscribePattern and assign, not {said}")
    if is_stream:
        for name in ("endingOffsets", "endingTimestamp"):
            if name in options:
                raise OptionError(f"option {name} is for batch queries only")
    pattern = options.get("subscribePattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise OptionError(f"option subscribePattern: {error}") from None
    return SourceOptions(
        path=str(path),
        subscribe=_groups(options),
        pattern=pattern,
        starting=_offsets("startingOffsets", options, "latest" if is_stream else "earliest"),
        starting_us=_timestamp("startingTimestamp", options),
        ending=_offsets("endingOffsets", options, "latest"),
        ending_us=_timestamp("endingTimestamp", options),
        rows_max=_positive("maxOffsetsPerTrigger", options),
        partitions_min=_positive("minPartitions", options) or 1,
        fails_on_loss=_flag("failOnDataLoss", options, True),
        includes_headers=_flag("includeHeaders", options, False),
        includes_sender=_flag("includeSender", options, False),
        consumer=options.get("consumer"),
        schema=options.get("schema"),
    )


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where to publish, and how."""

    gms: str
    topic: str | None = None
    order: Literal["content", "arrival"] = "content"
    members_min: int = 1
    recorders: tuple[str, ...] = ()
    flush_timeout_s: float = 60.0
    interface: str | None = None


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Read options as Spark hands them over; raises OptionError for the first that is wrong."""
    options = _known(given, _WRITE_OPTIONS)
    gms = options.get("gms")
    if not gms:
        raise OptionError("option gms: say where the membership service is, as host:port")
    order = options.get("order", "content")
    if order not in ("content", "arrival"):
        raise OptionError(f"option order: write content or arrival, not {order!r}")
    members = options.get("minMembers", "1")
    if not members.isdecimal():
        raise OptionError(f"option minMembers: write a number from 0 on, not {members!r}")
    for address in (gms, *_listed(options.get("recorders"))):
        try:
            parse_gms_address(address)
        except AddressError as error:
            raise OptionError(str(error)) from None
    return SinkOptions(
        gms=gms,
        topic=options.get("topic") or options.get("path"),
        order=order,  # type: ignore[arg-type]  # one of the two
        members_min=int(members),
        recorders=_listed(options.get("recorders")),
        flush_timeout_s=float(_positive("flushTimeoutSeconds", options) or 60),
        interface=options.get("quicksilver.interface"),
    )


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _known(given: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """Return the options under the names we write them with; raises OptionError for others."""
    by_lower = {name.lower(): name for name in names}
    options: dict[str, str] = {}
    for name, value in given.items():
        known = by_lower.get(name.lower())
        if known is None:
            raise OptionError(f"unknown option {name!r}; there is: {', '.join(names)}")
        options[known] = value
    return options


def _groups(options: Mapping[str, str]) -> tuple[str, ...]:
    assigned = options.get("assign")
    if assigned is not None:
        try:
            parts = msgspec.json.decode(assigned, type=dict[str, list[int]])
        except msgspec.MsgspecError as error:
            raise OptionError(f'option assign: write {{"group": [0]}}; {error}') from None
        if any(numbers != [0] for numbers in parts.values()):
            raise OptionError("option assign: a recorded group has one partition, 0")
        return tuple(sorted(parts))
    named = options.get("subscribe")
    if named is None:
        return ()
    groups = tuple(dict.fromkeys(part.strip() for part in named.split(",") if part.strip()))
    if not groups:
        raise OptionError("option subscribe: name groups, with commas between them")
    return groups


def _offsets(
    name: str, options: Mapping[str, str], default: Literal["earliest", "latest"]
) -> Start:
    text = options.get(name)
    if text is None:
        return default
    if text in ("earliest", "latest"):
        return text  # type: ignore[return-value]  # one of the two
    try:
        parts = msgspec.json.decode(text, type=dict[str, dict[str, int]])
        return {group: numbers["0"] for group, numbers in parts.items()}
    except (msgspec.MsgspecError, KeyError):
        shape = '{"group": {"0": 17}}'
        raise OptionError(f"option {name}: write earliest, latest or {shape}, not {text}") from None


def _timestamp(name: str, options: Mapping[str, str]) -> int | None:
    """Milliseconds since 1970, as Kafka's, or a date and time of ISO 8601; in microseconds."""
    text = options.get(name)
    if text is None:
        return None
    if text.isdecimal():
        return int(text) * 1000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        wanted = "milliseconds since 1970 or a date such as 2026-01-31T12:00:00"
        raise OptionError(f"option {name}: write {wanted}, not {text!r}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1_000_000)


def _positive(name: str, options: Mapping[str, str]) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"option {name}: write a number from 1 on, not {text!r}")
    return int(text)


def _flag(name: str, options: Mapping[str, str], default: bool) -> bool:
    text = options.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise OptionError(f"option {name}: write true or false, not {text!r}")
    return text.lower() == "true"
