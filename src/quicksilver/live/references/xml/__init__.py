"""References as XML: ``.liveobject`` files.

``rules`` and ``type_rules`` describe every element once, in the language of
``grammar`` and ``parts``; the reader, the writer and the ``schema`` all follow that description.
``elements`` turns bytes into a bounded tree and back, and ``files`` puts them
together. What others need is here.
"""

from quicksilver.live.references.xml.files import (
    SUFFIX,
    Parsed,
    RegistryEntries,
    canonical,
    fingerprint,
    load,
    load_registry,
    locate,
    parse,
    write,
)

__all__ = [
    "SUFFIX",
    "Parsed",
    "RegistryEntries",
    "canonical",
    "fingerprint",
    "load",
    "load_registry",
    "locate",
    "parse",
    "write",
]
