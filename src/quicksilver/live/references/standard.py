"""The types and primitives that every catalogue begins with (2.1.5 B and D).

The folder is the one type that references themselves depend on: whatever an
external reference is kept in must be one. Channels and the shared text are
those of Code 2.2 to 2.5.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from quicksilver.live.references.catalogue import Catalogue, Known, load_installed
from quicksilver.live.references.model import Parameter as ReferenceParameter
from quicksilver.live.references.names import (
    LIBRARY,
    LIBRARY_SHA256,
    LIBRARY_URL,
    REGISTRY,
    SHARED_TEXT,
)
from quicksilver.live.references.typenames import TypeName
from quicksilver.live.types.build import event, flip, object_type
from quicksilver.live.types.model import (
    BYTES,
    INT,
    STR,
    Constraint,
    EndpointType,
    ObjectType,
    Parameter,
    ReferenceOf,
    TypeParameter,
    ValueType,
)

FOLDER_ENDPOINT: Final = "folder"
FOLDER_ITEM: Final = "item"

ANY_OBJECT: Final = object_type({}, title="Object")
"""Every live object is one of these: it asks for no endpoint."""


def _folder(key: ValueType, held: ObjectType | Parameter) -> ObjectType:
    port = EndpointType(
        (event("get", name=key),),
        (
            event(FOLDER_ITEM, name=key, reference=ReferenceOf(held)),
            event("missing", name=key),
        ),
        title="Folder",
    )
    parameters = (
        TypeParameter("Key"),
        TypeParameter("Object", "object_type"),
    )
    is_template = isinstance(held, Parameter)
    return object_type(
        {FOLDER_ENDPOINT: port}, parameters=parameters if is_template else (), title="Folder"
    )


FOLDER_TEMPLATE: Final = _folder(Parameter("Key"), Parameter("Object"))
FOLDER: Final = _folder(STR, ANY_OBJECT)
"""What a reference can be fetched from by name; every folder with texts as keys is a subtype."""

_CHANNEL_EVENTS = (
    (event("send", message=BYTES),),
    (event("receive", message=BYTES),),
)
BEST_EFFORT_PORT: Final = EndpointType(
    *_CHANNEL_EVENTS,
    provides=(Constraint("delivery", "best effort"),),
    title="UnreliableChannel",
)
RELIABLE_PORT: Final = EndpointType(
    *_CHANNEL_EVENTS,
    provides=(Constraint("delivery", "exactly once and fifo"),),
    title="ReliableChannel",
)
CHANNEL: Final = object_type({"UnreliableChannel": BEST_EFFORT_PORT}, title="Channel")
RELIABLE_CHANNEL: Final = object_type({"ReliableChannel": RELIABLE_PORT}, title="ReliableChannel")
LOSS_RECOVERY: Final = object_type(
    {"UnreliableChannel": flip(BEST_EFFORT_PORT), "ReliableChannel": RELIABLE_PORT},
    title="LossRecovery",
)
TUNNEL: Final = object_type(
    {
        "Left": flip(BEST_EFFORT_PORT),
        "Right": flip(BEST_EFFORT_PORT),
        "UnreliableChannel": BEST_EFFORT_PORT,
    },
    title="Tunnel",
)
TEXT: Final = object_type(
    {
        "Text": EndpointType(
            (event("edit", position=INT, removed=INT, inserted=STR),),
            (event("changed", text=STR),),
            title="Text",
        )
    },
    title="Text",
)


def add_standard(catalogue: Catalogue) -> None:
    """Add the standard types and primitives."""
    for name, type_ in (
        ("Object", ANY_OBJECT),
        ("Identifier", STR),
        ("Folder", FOLDER_TEMPLATE),
        ("Channel", CHANNEL),
        ("ReliableChannel", RELIABLE_CHANNEL),
        ("LossRecovery", LOSS_RECOVERY),
        ("Tunnel", TUNNEL),
        ("Text", TEXT),
    ):
        catalogue.add_type(name, type_)
    catalogue.add(
        Known(
            identifier=LIBRARY,
            title="library",
            summary="the objects that a file of code implements, by the names of their classes",
            type=FOLDER,
            parameters=(
                ReferenceParameter(LIBRARY_URL, "value", TypeName("str")),
                ReferenceParameter(LIBRARY_SHA256, "value", TypeName("str")),
            ),
        )
    )
    catalogue.add(
        Known(
            identifier=REGISTRY,
            title="registry",
            summary="the folder that each node keeps for itself",
            type=FOLDER,
        )
    )
    catalogue.add(
        Known(
            identifier=SHARED_TEXT,
            title="shared text",
            summary="a text that many people edit, over a reliable channel",
            type=TEXT,
            parameters=(ReferenceParameter("Channel", "reference", TypeName("ReliableChannel")),),
        )
    )


@cache
def standard_catalogue() -> Catalogue:
    """Return the catalogue used where no other is given: the library, and all that is installed."""
    # The components are above references; who only reads and writes these does not need them.
    from quicksilver.live.components.library import add_standard_components

    catalogue = Catalogue()
    add_standard(catalogue)
    add_standard_components(catalogue)
    load_installed(catalogue)
    return catalogue
