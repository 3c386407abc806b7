"""One GMS, or one network of each kind, for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.node.networks import Network, running
from tests.node.service import running_gms


@pytest.fixture(scope="module")
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address


@pytest.fixture(scope="module", params=["gms", "scope"])
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    """What is tested with it holds for nodes of a GMS and of a scope alike."""
    with running(request.param) as found:
        yield found
