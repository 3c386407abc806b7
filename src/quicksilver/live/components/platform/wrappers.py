"""The wrappers that casts may use, and the types they lead to."""

from __future__ import annotations

from quicksilver.live.components.interfaces import RELIABLE
from quicksilver.live.components.platform.encryption import INSIDE, Encryption
from quicksilver.live.references.builder import primitive
from quicksilver.live.references.catalogue import Catalogue, Wrapper
from quicksilver.live.runtime.components import known_of
from quicksilver.live.types.build import object_type


def add_to(catalogue: Catalogue) -> None:
    """Make the wrappers known, and the types that they make of others."""
    encryption = known_of(Encryption, "quicksilver.encryption").type
    shown = {RELIABLE: encryption.by_name[RELIABLE]}
    catalogue.add_type("EncryptedChannel", object_type(shown, title="EncryptedChannel"))
    catalogue.add_wrapper(
        Wrapper(
            title="encryption",
            reference=primitive("quicksilver.encryption"),
            type=encryption,
            inside=INSIDE,
            wraps=RELIABLE,
            shows={RELIABLE: RELIABLE},
        )
    )
