"""Databases that a test leaves open are closed after it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def closed_databases(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close them: desks and simulated nodes just stop, as crashed ones do.

    From Python 3.13 on a connection that is collected while open is a ResourceWarning.
    """
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def connect_and_note(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", connect_and_note)
    yield
    for connection in opened:
        connection.close()
