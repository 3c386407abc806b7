"""What tests of the static check share."""

from __future__ import annotations

from pathlib import Path

import pytest

from quicksilver.live.references.builder import (
    composite,
    primitive,
)
from quicksilver.live.references.catalogue import (
    Catalogue,
    Known,
)
from quicksilver.live.references.check import (
    Checked,
)
from quicksilver.live.references.model import Composite
from quicksilver.live.references.model import Parameter as Wanted
from quicksilver.live.references.standard import (
    CHANNEL,
    RELIABLE_CHANNEL,
    add_standard,
)
from quicksilver.live.references.typenames import TypeName
from quicksilver.live.types import model as types
from quicksilver.live.types.build import event, flip, object_type

EXAMPLES = Path(__file__).parents[4] / "examples" / "live"
HASH = "ab" * 32


@pytest.fixture
def catalogue() -> Catalogue:
    made = Catalogue()
    add_standard(made)
    made.add(Known(identifier="test.channel", title="channel", type=CHANNEL))
    made.add(
        Known(
            identifier="test.recovery",
            title="recovery",
            type=object_type(
                {
                    "UnreliableChannel": flip(CHANNEL.by_name["UnreliableChannel"]),  # type: ignore[arg-type]
                    "ReliableChannel": RELIABLE_CHANNEL.by_name["ReliableChannel"],
                }
            ),
        )
    )
    message = types.Parameter("Message")
    made.add(
        Known(
            identifier="test.typed",
            title="channel of messages",
            type=object_type(
                {
                    "Channel": types.EndpointType(
                        (event("send", message),), (event("receive", message),)
                    )
                }
            ),
            parameters=(
                Wanted("Message", "type"),
                Wanted("Window", "value", TypeName("int")),
            ),
        )
    )
    return made


def only(checked: Checked, code: str) -> str:
    """The text of the one finding."""
    assert [finding.code for finding in checked.findings] == [code], checked.findings
    assert checked.findings[0].severity == "error"
    assert not checked.is_sound
    assert "\n" not in str(checked.findings[0])
    return checked.findings[0].text


def pair() -> Composite:
    return (
        composite()
        .component("network", primitive("test.channel"))
        .component("recovery", primitive("test.recovery"))
        .connect("network.UnreliableChannel", "recovery.UnreliableChannel")
        .export("recovery.ReliableChannel")
        .build()
    )
