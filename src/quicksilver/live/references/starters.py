"""Files to start from: what ``quicksilver object new`` writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quicksilver.live.references.builder import (
    composite,
    external,
    library,
    parameter,
    primitive,
    registry,
    template,
    use,
)
from quicksilver.live.references.model import Reference
from quicksilver.live.types.build import event, object_type
from quicksilver.live.types.model import STR, EndpointType

_URL = "file:///change/this/to/your/library.py"
_NO_HASH = "0" * 64
_HASH = "Put the library's SHA-256 here: sha256sum library.py"


def _make_composite() -> Reference:
    platform = external("QuickSilver", "Folder[Identifier, Channel]", registry())
    recovery = external("LossRecovery", "LossRecovery", library(_URL, _NO_HASH), doc=_HASH)
    return (
        composite(title="A reliable channel", doc="Two objects side by side, and what they show.")
        .component("network", external("MyChannel", "Channel", platform))
        .component("recovery", recovery)
        .connect("network.UnreliableChannel", "recovery.UnreliableChannel")
        .export("recovery.ReliableChannel")
        .build()
    )


def _make_external() -> Reference:
    platform = external("MyPlatform", "Folder[Identifier, Channel]", registry())
    return external(
        "MyChannel", "Channel", platform, doc="A channel that each node's registry leads to."
    )


def _make_library() -> Reference:
    port = EndpointType((event("say", words=STR),), (event("heard", words=STR),))
    type_ = object_type({"Talk": port}, title="MyType")
    return external("MyClass", type_, library(_URL, _NO_HASH), title="My own object", doc=_HASH)


def _make_shared_text() -> Reference:
    channel = primitive("quicksilver.checkpointed-channel", group="my-notes")
    return primitive(
        "quicksilver.text",
        title="A shared text",
        doc="Whoever runs this file edits the same text; change the group for another one.",
        channel=channel,
    )


def _make_template() -> Reference:
    return template(
        [
            parameter("Network", "reference", "Channel", doc="What loses messages."),
            parameter("Recovery", "reference", "LossRecovery", doc="What asks for them again."),
        ],
        composite()
        .component("network", use("Network"))
        .component("recovery", use("Recovery"))
        .connect("network.UnreliableChannel", "recovery.UnreliableChannel")
        .export("recovery.ReliableChannel")
        .build(),
        title="Reliable channel",
    )


STARTERS: Final[dict[str, Callable[[], Reference]]] = {
    "composite": _make_composite,
    "external": _make_external,
    "library": _make_library,
    "shared-text": _make_shared_text,
    "template": _make_template,
}
"""Names and what makes the file of that name."""
