"""What the package offers is there, and is not imported before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import quicksilver
from quicksilver.node import aio, sync


def test_every_name_is_there() -> None:
    for name in quicksilver.__all__:
        assert getattr(quicksilver, name) is not None
    assert quicksilver.connect is aio.connect
    assert quicksilver.sync.connect is sync.connect
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = quicksilver.nothing


@pytest.mark.slow
@pytest.mark.parametrize("module", ["quicksilver", "quicksilver.spark", "quicksilver.cli.main"])
def test_the_engine_is_not_imported_before_it_is_used(module: str) -> None:
    """Commands and Spark's many Python processes pay for every import."""
    program = f"import sys, {module}; sys.exit('quicksilver.multicast.engine' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
