"""What takes too long for every change: run by ``make soak-spark``."""

from __future__ import annotations

import os

import pytest

only_in_soak = pytest.mark.skipif(
    "QUICKSILVER_SOAK" not in os.environ, reason="set QUICKSILVER_SOAK=1, or make soak-spark"
)
