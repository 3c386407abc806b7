"""One GMS for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.node.service import running_gms


@pytest.fixture(scope="module")
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address
