"""State on disk and backups: what survives the last user, crashes and torn writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.live.components.infrastructure.journal import (
    DamagedSnapshotError,
    Journal,
)
from quicksilver.live.components.infrastructure.ordering.events import Applied
from quicksilver.live.components.infrastructure.ordering.messages import Entry, Snapshot
from quicksilver.live.references.builder import primitive
from quicksilver.live.services.storage import DirectoryTakenError, FileStorage, Storage
from tests.live.infrastructure.kit import Stage, User, checkpointed
from tests.live.media import MemoryStorage

EPOCH = (1, 1, 1)
START = Snapshot(EPOCH, 10, [], [], b"state")


def never(delay_s: float, step: object) -> None:
    """Plan nothing."""


def entry(number: int) -> Entry:
    return Entry(0, (1, 1), number, payload=b"update %d" % number)


def filled(storage: Storage, count: int, **options: int) -> Journal:
    """Return a journal with a snapshot at 10 and so many entries."""
    journal = Journal(storage, "list", plan_sync=never, **options)
    journal.handle_initialized(START)
    for number in range(1, count + 1):
        journal.handle_applied(Applied(EPOCH, 10 + number, entry(number)))
    return journal


class TestJournal:
    def test_reads_what_was_written(self, tmp_path: Path) -> None:
        storage = FileStorage(tmp_path)
        filled(storage, 20)
        with pytest.raises(DirectoryTakenError, match="give each its own directory"):
            FileStorage(tmp_path)
        storage.close()
        saved = Journal(FileStorage(tmp_path), "list", plan_sync=never).saved
        assert saved is not None
        assert saved.snapshot == START
        assert saved.index == 30
        assert saved.entries == tuple(entry(n) for n in range(1, 21))

    def test_is_empty_at_first(self, tmp_path: Path) -> None:
        assert Journal(FileStorage(tmp_path), "list", plan_sync=never).saved is None

    @given(st.integers(min_value=0, max_value=1000), st.booleans())
    def test_a_torn_tail_is_repaired(self, cut: int, flip: bool) -> None:
        """Wherever the log ends or is damaged, a prefix of the entries is read, and can go on."""
        storage = MemoryStorage()
        filled(storage, 20)
        data = storage.read("list.log")
        assert data is not None
        at = cut % len(data)
        torn = data[:at] + (bytes([data[at] ^ 1]) + data[at + 1 :] if flip else b"")
        storage.replace("list.log", torn)
        journal = Journal(storage, "list", plan_sync=never)
        saved = journal.saved
        assert saved is not None
        kept = len(saved.entries)
        assert kept < 20
        assert saved.entries == tuple(entry(n) for n in range(1, kept + 1))
        journal.handle_applied(Applied(EPOCH, saved.index + 1, entry(kept + 1)))
        again = Journal(storage, "list", plan_sync=never).saved
        assert again is not None
        assert len(again.entries) == kept + 1

    def test_a_snapshot_is_due_and_shortens_the_log(self) -> None:
        storage = MemoryStorage()
        journal = filled(storage, 4, snapshot_updates=5)
        assert journal.handle_applied(Applied(EPOCH, 15, entry(5)))
        assert not journal.handle_applied(Applied(EPOCH, 16, entry(6)))  # it is on its way
        journal.handle_captured(Snapshot(EPOCH, 15, [], [], b"newer"))
        saved = Journal(storage, "list", plan_sync=never).saved
        assert saved is not None
        assert (saved.snapshot.state, saved.entries) == (b"newer", (entry(6),))

    def test_the_machine_ends_between_snapshot_and_new_log(self) -> None:
        """Entries that the snapshot has are passed over."""
        storage = MemoryStorage()
        journal = filled(storage, 5)
        log = storage.read("list.log")
        assert log is not None
        journal.handle_captured(Snapshot(EPOCH, 13, [], [], b"newer"))
        storage.replace("list.log", log)
        saved = Journal(storage, "list", plan_sync=never).saved
        assert saved is not None
        assert (saved.index, saved.entries) == (15, (entry(4), entry(5)))

    def test_what_was_not_synced_is_lost_with_the_machine_only(self) -> None:
        storage = MemoryStorage()
        journal = filled(storage, 3)
        journal.sync()
        journal.handle_applied(Applied(EPOCH, 14, entry(4)))
        saved = Journal(storage, "list", plan_sync=never).saved
        assert saved is not None
        assert saved.index == 14
        storage.lose_power(keep=7)
        journal = Journal(storage, "list", plan_sync=never)
        assert journal.saved is not None
        assert (journal.saved.index, journal.torn_bytes) == (13, 7)

    def test_a_damaged_snapshot_is_told(self) -> None:
        storage = MemoryStorage()
        filled(storage, 3)
        data = storage.read("list.snapshot")
        assert data is not None
        storage.replace("list.snapshot", data[:-1] + b"?")
        with pytest.raises(DamagedSnapshotError, match="restore it from another node"):
            Journal(storage, "list", plan_sync=never)

    def test_a_newer_disk_that_came_too_late_is_set_aside(self) -> None:
        storage = MemoryStorage()
        filled(storage, 5)
        journal = Journal(storage, "list", plan_sync=never)
        journal.handle_initialized(Snapshot(EPOCH, 2, [], [], b"others"))
        assert storage.read("list.snapshot.aside") is not None
        saved = Journal(storage, "list", plan_sync=never).saved
        assert saved is not None
        assert saved.snapshot.state == b"others"

    def test_names_cannot_leave_the_directory(self, tmp_path: Path) -> None:
        storage = FileStorage(tmp_path / "inner")
        for name in ("../evil", "a/b", "..", "x" * 500, "é"):
            storage.append(name, b"1")
            storage.replace(name, b"2")
            assert storage.read(name) == b"2"
        assert [one.name for one in tmp_path.iterdir()] == ["inner"]
        assert len(list((tmp_path / "inner").iterdir())) == 6  # and the lock


class TestDisk:
    """Checkpointed channels with a store, in the simulator."""

    def test_the_state_survives_the_last_user(self) -> None:
        disks = {index: MemoryStorage() for index in range(3)}
        stage = Stage(seed=11, reference=checkpointed(store="list", snapshot_updates=7))
        pairs = []
        for index, node in enumerate(stage.cluster.start(3)):
            stage.equip(node, {Storage: disks[index]})
            pairs.append((node, stage.join(node)))
        assert stage.cluster.run(20, lambda: all(user.items is not None for _, user in pairs))
        for i in range(10):
            for node, user in pairs:
                stage.send(node, user, f"{user.name}/{i}")
            stage.cluster.run(0.05)
        assert stage.cluster.run(10, lambda: stage.agree(lambda items: len(items) == 30))
        stage.cluster.run(1)
        items = pairs[0][1].items
        for node, _ in pairs:
            node.crash()
            disks[node.index].lose_power()
        stage.cluster.run(5)
        back = []
        for index in (2, 0, 1):
            node = stage.cluster.restart(index)
            stage.equip(node, {Storage: disks[index]})
            back.append(stage.join(node))
        assert stage.cluster.run(30, lambda: all(user.items == items for user in back))
        assert not stage.failures()

    def test_the_newest_disk_counts(self) -> None:
        """One node left early: its old state does not win when all start again together."""
        disks = {index: MemoryStorage() for index in range(2)}
        stage = Stage(seed=12, reference=checkpointed(store="list"))
        nodes = stage.cluster.start(2)
        for index, node in enumerate(nodes):
            stage.equip(node, {Storage: disks[index]})
        old, new = (stage.join(node) for node in nodes)
        assert stage.cluster.run(20, lambda: old.items is not None and new.items is not None)
        stage.send(nodes[0], old, "both")
        assert stage.cluster.run(5, lambda: new.items == ["both"])
        stage.cluster.run(1)
        nodes[0].crash()
        stage.send(nodes[1], new, "one")
        assert stage.cluster.run(20, lambda: new.items == ["both", "one"])
        stage.cluster.run(5)
        nodes[1].crash()
        stage.cluster.run(5)
        back: list[User] = []
        for index in range(2):
            node = stage.cluster.restart(index)
            stage.equip(node, {Storage: disks[index]})
            back.append(stage.join(node, reference=checkpointed(store="list", founders=2)))
        assert stage.cluster.run(30, lambda: all(u.items == ["both", "one"] for u in back))


class TestBackup:
    """Copies on nodes that offer to keep them."""

    def test_the_state_outlives_its_users_on_the_chosen_number_of_hosts(self) -> None:
        stage = Stage(seed=13)
        hosts = stage.start(3)
        backup = primitive("quicksilver.backup", group="list", copies=2, snapshot_updates=5)
        news: dict[int, list[tuple[bool, int]]] = {}
        people: list[list[str]] = []
        for host in hosts:
            self.open(stage, host, backup, news, people)
        stage.cluster.run(2)
        assert [news[host.index][-1] for host in hosts] == [(True, 3), (True, 3), (False, 3)]

        (node,) = stage.start(1)
        user = stage.join(node)
        assert stage.cluster.run(10, lambda: user.items is not None)
        for i in range(23):
            stage.send(node, user, f"{user.name}/{i}")
            stage.cluster.run(0.1)
        assert stage.cluster.run(10, lambda: user.items is not None and len(user.items) == 23)
        # It leads, so that backups can be given a state instead of all updates.
        assert user.captures > 0
        items = user.items
        stage.leave(node, user)
        stage.cluster.run(1)

        hosts[0].crash()
        stage.cluster.run(8)
        assert news[2][-1] == (True, 2)
        hosts[1].crash()
        stage.cluster.run(8)
        again = stage.join(node)
        assert stage.cluster.run(20, lambda: again.items == items)
        assert not stage.failures()

    def test_a_backup_on_disk_survives_everything(self) -> None:
        disk = MemoryStorage()
        stage = Stage(seed=14)
        backup = primitive("quicksilver.backup", group="list", store="list", snapshot_updates=4)
        (host,) = stage.cluster.start(1)
        stage.equip(host, {Storage: disk})
        self.open(stage, host, backup, {}, [])
        (node,) = stage.start(1)
        user = stage.join(node)
        assert stage.cluster.run(10, lambda: user.items is not None)
        for i in range(11):
            stage.send(node, user, f"{user.name}/{i}")
            stage.cluster.run(0.1)
        stage.cluster.run(1)
        items = user.items
        assert items is not None
        assert len(items) == 11
        host.crash()
        node.crash()
        disk.lose_power()
        stage.cluster.run(8)
        host = stage.cluster.restart(0)
        stage.equip(host, {Storage: disk})
        self.open(stage, host, backup, {}, [])
        (late,) = stage.start(1)
        # Whoever is alone when it comes may start from nothing: it must wait for a host.
        again = stage.join(late, reference=checkpointed(founders=2))
        assert stage.cluster.run(20, lambda: again.items == items)

    @staticmethod
    def open(
        stage: Stage,
        host: object,
        backup: object,
        news: dict[int, list[tuple[bool, int]]],
        people: list[list[str]],
    ) -> None:
        runtime = stage.runtimes[host]  # type: ignore[index]
        told = news.setdefault(host.index, [])  # type: ignore[attr-defined]

        def opened(done: object) -> None:
            proxy = done.result()  # type: ignore[attr-defined]
            stage.kept.append(proxy)
            runtime.attach(
                proxy.endpoint("Backup"), {"active": lambda yes, count: told.append((yes, count))}
            )

        host.host.submit(  # type: ignore[attr-defined]
            lambda: runtime.open(backup, "backup").when_done(opened)
        )
