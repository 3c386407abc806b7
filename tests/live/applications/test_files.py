"""Objects open only files that this machine's owner shares, whatever references say."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from quicksilver.live.references.builder import primitive
from quicksilver.live.references.xml import write
from quicksilver.live.services.storage import FileRefusedError, SharedFiles
from tests.live.applications.desk import Desk


def test_only_files_within_the_directories_are_found(tmp_path: Path) -> None:
    shared, other = tmp_path / "shared", tmp_path / "other"
    shared.mkdir()
    other.mkdir()
    (shared / "link").symlink_to(other)
    files = SharedFiles(shared)
    assert files.find("stock.db") == shared / "stock.db"
    assert files.find(str(shared / "deep" / "stock.db")) == shared / "deep" / "stock.db"
    for path in ("../other/stock.db", "/etc/passwd", "link/stock.db", "a\0b", str(other / "x")):
        with pytest.raises(FileRefusedError):
            files.find(path)
    with pytest.raises(FileRefusedError, match="nowhere"):
        SharedFiles().find("stock.db")


@pytest.mark.parametrize("roots", [(), ("/nowhere",)])
def test_a_reference_on_a_desktop_reads_no_private_file(
    roots: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "secret.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE cookies (id INTEGER PRIMARY KEY, value TEXT)")
        db.execute("INSERT INTO cookies VALUES (1, 'secret')")
    db.close()
    desk = Desk()
    runtime = desk.runtime(services={SharedFiles: SharedFiles(*roots)})
    desktop = primitive("quicksilver.desktop", channel=primitive("test.checkpointed", group="d"))
    user = desk.join(desktop, "Desktop", runtime)
    desk.run()
    channel = primitive("test.checkpointed", group="spy")
    spy = primitive("quicksilver.sqlite", channel=channel, path=str(path), table="cookies")
    user.port.drop("free games", 0.0, 0.0, write(spy))
    desk.run()
    assert "is not where objects may open files" in user.got("failed")[0][1]
    assert desk.hub.members("spy") == []
    assert not any(b"secret" in data for group, data in desk.hub.sent if group == "spy")
