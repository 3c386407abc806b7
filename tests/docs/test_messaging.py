"""The file that docs/messaging.md shows; tests/docs/test_pages.py runs its blocks."""

from __future__ import annotations

import tomllib

from quicksilver.node.options import parse_gms_address
from tests.docs.parsing import texts

PAGE = "docs/messaging.md"


def test_the_file_that_is_shown_can_be_read() -> None:
    (block,) = texts(PAGE, "toml")
    assert parse_gms_address(tomllib.loads(block)["gms"]) == ("10.0.0.5", 7401)
