"""The doctor's checks: what is seen, and that every complaint comes with a cure."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from quicksilver.net import diagnosis
from quicksilver.net.batch_calls import PLAIN_VARIABLE
from quicksilver.net.diagnosis import Finding, diagnose
from quicksilver.net.interfaces import Interface, choose_interface

pytestmark = pytest.mark.integration

LOOPBACK = choose_interface("127.0.0.1")
GHOST = Interface("ghost", "192.0.2.99", 900, False, False)


def by_check(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings}


def test_every_check_reports_and_every_complaint_has_a_cure() -> None:
    """A finding without a next step helps nobody."""
    found = by_check(diagnose(spec="127.0.0.1"))
    assert {"interface", "mtu", "multicast", "send", "receive buffer", "batching"} <= set(found)
    assert found["multicast"].ok
    assert found["send"].ok
    for finding in found.values():
        assert finding.detail
        assert finding.ok == (not finding.fix)
        assert "\n" not in finding.detail + finding.fix


def test_a_reachable_gms_is_told_from_one_that_is_not() -> None:
    """The most common mistake of all: the GMS is not running."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert diagnosis.check_gms(f"127.0.0.1:{port}", 1.0)[0].ok
    refused = diagnosis.check_gms(f"127.0.0.1:{port}", 1.0)[0]
    assert not refused.ok
    assert "refused" in refused.detail
    assert by_check(diagnose(gms=f"127.0.0.1:{port}"))["gms"].ok is False


@pytest.mark.parametrize("gms", ["", "host", "host:", ":1", "host:port", "host:70000"])
def test_a_gms_address_that_is_none_is_explained(gms: str) -> None:
    """Before anything is resolved or connected."""
    assert diagnosis.check_gms(gms, 0.1)[0].fix == "write host:port"


def test_an_unknown_interface_is_a_finding_and_the_other_checks_run() -> None:
    """The doctor never dies of the disease."""
    found = by_check(diagnose(spec="no-such-interface"))
    assert not found["interface"].ok
    assert "choose one of" in found["interface"].fix
    assert "receive buffer" in found


def test_an_unfit_interface_is_described() -> None:
    """No multicast flag, a small MTU, nothing comes back, nothing can be sent."""
    found = by_check(
        diagnosis.check_interface(GHOST)
        + diagnosis.check_multicast(GHOST)
        + diagnosis.check_closed_port(GHOST)
    )
    assert not any(finding.ok for finding in found.values())
    assert all(finding.fix for finding in found.values())


@pytest.mark.parametrize(("limit", "ok"), [("212992", False), ("16777216", True)])
def test_buffer_limits_are_judged_by_what_nodes_ask_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, ok: bool
) -> None:
    """A stock Linux allows 208 KiB, one scheduling delay at full rate."""
    (tmp_path / "net/core").mkdir(parents=True)
    for name in ("rmem_max", "wmem_max"):
        (tmp_path / "net/core" / name).write_text(limit, encoding="utf-8")
    monkeypatch.setattr(diagnosis, "_PROC_SYS", tmp_path)
    monkeypatch.setattr(diagnosis, "may_exceed_limits", lambda: False)
    assert [finding.ok for finding in diagnosis.check_buffers()] == [ok, ok]
    monkeypatch.setattr(diagnosis, "may_exceed_limits", lambda: True)
    assert [finding.ok for finding in diagnosis.check_buffers()] == [True, True]


def test_settings_that_cannot_be_read_are_no_complaint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other systems have no such files."""
    monkeypatch.setattr(diagnosis, "_PROC_SYS", tmp_path)
    assert all(finding.ok for finding in diagnosis.check_buffers() + diagnosis.check_memberships())


def test_forced_plain_mode_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgotten in an environment, it would cost most of the throughput."""
    monkeypatch.setenv(PLAIN_VARIABLE, "1")
    finding = diagnosis.check_batching()[0]
    assert (finding.ok, finding.fix) == (False, "unset QUICKSILVER_PLAIN")
