"""The catalogue knows the whole library, and what it had before is what components are."""

from __future__ import annotations

import pytest

from quicksilver.live.components import interfaces
from quicksilver.live.components.infrastructure.loss_recovery import LossRecovery
from quicksilver.live.components.infrastructure.tunnel import Tunnel
from quicksilver.live.components.library import standard_components
from quicksilver.live.references import standard
from quicksilver.live.references.catalogue import Catalogue, Known
from quicksilver.live.references.names import SHARED_TEXT
from quicksilver.live.references.standard import add_standard, standard_catalogue
from quicksilver.live.runtime.components import announce, component, known_of, mark_of
from quicksilver.live.runtime.errors import ComponentError
from quicksilver.live.types.declare import object_type_of
from quicksilver.live.types.model import ObjectType
from quicksilver.live.types.subtyping import is_subtype
from tests.live.runtime.worlds import Echo, Numbers  # noqa: F401  # Numbers for annotations


@pytest.mark.parametrize("cls", standard_components(), ids=lambda cls: cls.__name__)
def test_every_component_is_known_with_a_summary_and_a_readable_type(cls: type) -> None:
    mark = mark_of(cls)
    known = standard_catalogue().find(mark.identifier)
    assert known is not None
    assert known.summary
    assert known.title
    assert is_subtype(known_of(cls, mark.identifier).type, known.type)
    if mark.type_name:
        assert isinstance(standard_catalogue().find_type(mark.type_name), ObjectType)


def test_what_references_name_is_what_components_are() -> None:
    """The types of Code 2.2 to 2.5 are those of the classes that run them."""
    assert object_type_of(interfaces.UnreliableChannel) == standard.CHANNEL
    assert object_type_of(interfaces.ReliableChannel) == standard.RELIABLE_CHANNEL
    for cls, wanted in ((Tunnel, standard.TUNNEL), (LossRecovery, standard.LOSS_RECOVERY)):
        assert is_subtype(known_of(cls, "test.x").type, wanted)


def test_the_shared_text_takes_what_references_give_it() -> None:
    known = standard_catalogue().find(SHARED_TEXT)
    (cls,) = (one for one in standard_components() if mark_of(one).identifier == SHARED_TEXT)
    assert known is not None
    assert [one.name for one in known.parameters] == [
        one.name for one in known_of(cls, SHARED_TEXT).parameters
    ]


def test_a_component_that_is_not_what_the_catalogue_says_is_refused() -> None:
    catalogue = Catalogue()
    add_standard(catalogue)
    catalogue.add(Known(identifier="test.wrong", title="x", type=standard.TEXT))
    wrong = component("test.wrong")(type("Wrong", (Echo,), {}))
    with pytest.raises(ComponentError, match=r"is not what test\.wrong is: endpoint Text"):
        announce(wrong, catalogue)
    named = component("test.named", type_name="Text")(type("Named", (Echo,), {}))
    with pytest.raises(ComponentError, match="is not the type called Text"):
        announce(named, catalogue)
    with pytest.raises(ComponentError, match="use @component"):
        announce(type("Bare", (Echo,), {}), catalogue)
