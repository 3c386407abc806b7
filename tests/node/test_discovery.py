"""``connect()`` without an address."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import quicksilver
from quicksilver.lab.processes import free_udp_port
from quicksilver.node import discovery
from quicksilver.node.discovery import (
    find_configured,
    find_owner_problem,
    find_running,
    user_file,
)
from tests.node.service import connect, connect_sync, run, running_gms


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No GMS at the usual places of the machine that runs the test."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there
        monkeypatch.setattr(discovery, "GMS_PORT", unused.getsockname()[1])
        monkeypatch.setattr(discovery, "_look_up", lambda name: None)
        monkeypatch.setenv("QUICKSILVER_DISCOVERY_PORT", str(free_udp_port()))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        monkeypatch.delenv("QUICKSILVER_GMS", raising=False)
        monkeypatch.chdir(tmp_path)
        yield


def test_a_controller_can_be_configured_like_a_gms() -> None:
    """A program that connects without an address need not change."""
    assert find_configured({"QUICKSILVER_GMS": "unix:/run/one"}) == "unix:/run/one"


def test_the_environment_comes_first(tmp_path: Path) -> None:
    (tmp_path / "quicksilver.toml").write_text('gms = "file:2"', encoding="utf-8")
    assert find_configured({"QUICKSILVER_GMS": "variable:1"}) == "variable:1"
    assert find_configured({}) == "file:2"


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "quicksilver.toml").write_text('gms = "above:1"', encoding="utf-8")
    assert find_configured({}, below) == "above:1"
    (below / "quicksilver.toml").write_text('gms = "here:1"', encoding="utf-8")
    assert find_configured({}, below) == "here:1"


def test_a_file_that_names_no_gms_is_passed_over(tmp_path: Path) -> None:
    below = tmp_path / "a"
    below.mkdir()
    (below / "quicksilver.toml").write_text("[other]\nx = 1\n", encoding="utf-8")
    (tmp_path / "quicksilver.toml").write_text('gms = "above:1"', encoding="utf-8")
    assert find_configured({}, below) == "above:1"


def test_the_users_configuration_comes_last(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "quicksilver").mkdir(parents=True)
    (folder / "quicksilver" / "quicksilver.toml").write_text('gms = "mine:1"', encoding="utf-8")
    assert find_configured({"XDG_CONFIG_HOME": str(folder)}) == "mine:1"
    assert user_file({"XDG_CONFIG_HOME": "/x"}) == Path("/x/quicksilver/quicksilver.toml")


def test_a_file_that_any_user_can_write_is_refused(tmp_path: Path) -> None:
    """A stranger on the machine must not send nodes to a cluster of theirs."""
    path = tmp_path / "quicksilver.toml"
    path.write_text('gms = "theirs:1"', encoding="utf-8")
    path.chmod(0o666)
    with pytest.raises(quicksilver.ConfigFileError) as caught:
        find_configured({}, tmp_path)
    assert "can be written by every user" in str(caught.value)
    assert "set QUICKSILVER_GMS" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert find_configured({"QUICKSILVER_GMS": "ours:1"}, tmp_path) == "ours:1"


def test_a_file_of_another_user_is_refused_in_folders_that_are_open_to_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``/tmp`` is; the folders above a working folder need not be its user's."""
    open_to_all = tmp_path / "tmp"
    below = open_to_all / "work"
    below.mkdir(parents=True)
    open_to_all.chmod(0o1777)
    (open_to_all / "quicksilver.toml").write_text('gms = "theirs:1"', encoding="utf-8")
    assert find_configured({}, below) == "theirs:1"
    # Whoever runs the test owns the file: to another user it is a stranger's.
    owner = (open_to_all / "quicksilver.toml").stat().st_uid
    if owner == 0:
        os.chown(open_to_all / "quicksilver.toml", 12345, -1)
    else:
        monkeypatch.setattr(discovery.os, "geteuid", lambda: owner + 1)
    with pytest.raises(quicksilver.ConfigFileError, match="belongs to another user"):
        find_configured({}, below)


@pytest.mark.parametrize("is_strangers", [False, True])
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_strangers: bool
) -> None:
    """Whoever may write into a folder above could else stop all nodes below it."""
    path = tmp_path / "quicksilver.toml"
    os.mkfifo(path)
    if is_strangers:
        monkeypatch.setattr(discovery, "find_owner_problem", lambda *_: "belongs to another user")
    caught: list[Exception] = []

    def find() -> None:
        try:
            find_configured({}, tmp_path)
        except quicksilver.ConfigFileError as error:
            caught.append(error)

    thread = threading.Thread(target=find, daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive()
    problem = "belongs to another user" if is_strangers else "is no ordinary file"
    assert [problem in str(error) for error in caught] == [True]


def test_a_folder_with_the_name_of_the_file_is_passed_over(tmp_path: Path) -> None:
    below = tmp_path / "a"
    (below / "quicksilver.toml").mkdir(parents=True)
    (tmp_path / "quicksilver.toml").write_text('gms = "above:1"', encoding="utf-8")
    assert find_configured({}, below) == "above:1"


def test_a_working_folder_that_was_deleted_has_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert find_configured({}) is None


def test_a_file_of_the_administrator_is_followed() -> None:
    status = os.stat_result((0o100644, 0, 0, 1, 0, 0, 0, 0, 0, 0))
    assert find_owner_problem(status, 1000) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gms = ", "is not TOML"),
        ("gms = 7401", "must say gms"),
        ('gms = "nonsense"', "is not a GMS address"),
    ],
)
def test_a_file_that_makes_no_sense_is_said(tmp_path: Path, text: str, problem: str) -> None:
    """Not passed over: whoever wrote it means it."""
    (tmp_path / "quicksilver.toml").write_text(text, encoding="utf-8")
    with pytest.raises(quicksilver.QuicksilverError, match=problem):
        find_configured({})


@pytest.mark.integration
def test_the_error_lists_what_was_tried() -> None:
    with pytest.raises(quicksilver.GmsNotFoundError) as caught:
        find_running()
    text = str(caught.value)
    for tried in ("QUICKSILVER_GMS", "quicksilver.toml", "127.0.0.1:", "quicksilver-gms", "UDP"):
        assert tried in text
    assert "\n" not in text


@pytest.mark.integration
def test_a_gms_on_the_local_network_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_udp_port()
    with running_gms(discovery_port=port) as address:
        monkeypatch.setenv("QUICKSILVER_DISCOVERY_PORT", str(port))

        async def work() -> None:
            async with connect(None) as node:
                assert node.id > 0
                assert f"{node.core.gms[0]}:{node.core.gms[1]}" == address

        run(work())
        with connect_sync(None) as node:
            assert node.id > 0


@pytest.mark.integration
def test_several_that_answer_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which cluster a node is in is never left to chance."""
    port = free_udp_port()
    with running_gms(discovery_port=port) as one, running_gms(discovery_port=port) as two:
        monkeypatch.setattr(discovery, "discover", lambda port: sorted(_both(one, two)))
        with pytest.raises(quicksilver.SeveralGmsError) as caught:
            find_running(port)
        assert one in str(caught.value)
        assert two in str(caught.value)


def _both(*addresses: str) -> list[tuple[str, int]]:
    return [(host, int(port)) for host, port in (each.split(":") for each in addresses)]


@pytest.mark.integration
def test_a_gms_at_the_usual_port_of_this_machine_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running_gms() as address:
        monkeypatch.setattr(discovery, "GMS_PORT", int(address.split(":")[1]))
        with connect_sync(None) as node:
            assert node.core.gms == ("127.0.0.1", int(address.split(":")[1]))


@pytest.mark.integration
def test_a_host_name_is_tried_before_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "_look_up", lambda name: "192.0.2.1")
    assert find_running() == f"192.0.2.1:{discovery.GMS_PORT}"


@pytest.mark.parametrize("text", ["x = " + "[" * 100_000, "x = " + "9" * 10_000])
def test_a_file_that_no_parser_reads_is_an_error_of_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "quicksilver.toml").write_text(text)
    with pytest.raises(quicksilver.ConfigFileError, match="is not TOML"):
        find_configured({}, tmp_path)
