"""What peers print, as they print it, and what we make of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.peers import cyclone, greeting, jgroups, ours
from bench.peers.result import (
    PeerFailedError,
    PeerMissingError,
    Report,
    parse_report,
    summarize,
)

DDSPERF_SUB = """\
[5841] participant vm:5841: new (self)
[5841] participant vm:5859: new
[5841] 1.000  size 1000 total 114672 lost 0 delta 114672 lost 0 rate 114.67 kS/s 917.37 Mb/s (11.47 kS/s 91.74 Mb/s)
[5841] 1.000  rss:7.3MB vcsw:4 ivcsw:1 ddsperf:0%+1%
[5841] 2.000  size 1000 total 303155 lost 0 delta 188483 lost 0 rate 188.48 kS/s 1507.86 Mb/s (30.32 kS/s 242.52 Mb/s)
[5841] 3.000  size 1000 total 484902 lost 2 delta 181747 lost 2 rate 181.79 kS/s 1454.31 Mb/s (48.50 kS/s 388.01 Mb/s)
[5841] 4.000  size 1000 total 500000 lost 2 delta 15098 lost 0 rate 15.10 kS/s 120.78 Mb/s (50.00 kS/s 400.00 Mb/s)
[5841] 5.000  size 1000 total 500000 lost 2 delta 0 lost 0 rate 0.00 kS/s 0.00 Mb/s (50.00 kS/s 400.00 Mb/s)
"""  # noqa: E501 - verbatim output


class TestCyclone:
    def test_only_whole_seconds_with_data_count(self) -> None:
        """Seconds in which sending began or ended would understate the peer's rate."""
        rate, lost = cyclone.parse_sub(DDSPERF_SUB.splitlines(), 1000)
        assert rate == pytest.approx((484902 - 114672) / 2.0)
        assert lost == 2

    def test_a_run_too_short_to_judge_is_refused(self) -> None:
        """Two partial seconds say nothing about a rate."""
        lines = DDSPERF_SUB.splitlines()[:5]
        with pytest.raises(PeerFailedError, match="three seconds"):
            cyclone.parse_sub(lines, 1000)

    def test_another_message_size_is_refused(self) -> None:
        """A stray publisher in the same domain must not be measured."""
        with pytest.raises(PeerFailedError, match="1000 bytes instead of 500"):
            cyclone.parse_sub(DDSPERF_SUB.splitlines(), 500)


class TestReports:
    def test_the_slowest_receiver_gives_the_rate(self) -> None:
        """A multicast is as fast as the receiver that everybody waits for."""
        fast = Report(received=1000, sent=1000, elapsed_s=1.0)
        slow = Report(received=990, sent=1000, elapsed_s=2.0)
        assert summarize([fast, slow]) == (pytest.approx(495.0), 10)

    @pytest.mark.parametrize("reports", [[], [Report(received=0, sent=10, elapsed_s=1.0)]])
    def test_silence_is_a_failure_not_a_rate_of_zero(self, reports: list[Report]) -> None:
        """A zero in the table would read as a measurement."""
        with pytest.raises(PeerFailedError):
            summarize(reports)

    def test_a_report_is_one_line(self) -> None:
        """Python and Java receivers print the same line."""
        assert parse_report("report 10 12 0.5\n") == Report(received=10, sent=12, elapsed_s=0.5)

    @pytest.mark.parametrize("line", ["", "report 1 2", "report a b c", "sent 1 2 3"])
    def test_anything_else_is_named_in_the_error(self, line: str) -> None:
        """A receiver's last words are the best hint at what went wrong."""
        with pytest.raises(PeerFailedError) as caught:
            parse_report(line)
        assert repr(line) in str(caught.value)


class TestGreeting:
    def test_the_end_carries_how_many_were_sent(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Receivers learn from it what they should have got."""
        empty = tmp_path / "stdin"
        empty.touch()
        sent: list[bytes] = []
        with empty.open() as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            greeting.send_for(0.001, 50, sent.append)
        *data, end = sent
        assert {len(message) for message in data} == {50}
        assert greeting.parse_end(end) == len(data)


class TestJGroups:
    def test_its_version_is_read_from_its_greeting(self) -> None:
        """The table names what was measured."""
        assert jgroups.parse_version("joined JGroups 2.12.2 (Final)\n") == "2.12.2"
        assert jgroups.parse_version("joined\n") == "unknown"

    def test_without_the_jar_it_is_missing(self, tmp_path: Path) -> None:
        """Missing is a row with advice, not a crash."""
        with pytest.raises(PeerMissingError, match=r"jgroups\.jar"):
            jgroups.class_path(tmp_path)

    def test_logging_jars_are_optional(self, tmp_path: Path) -> None:
        """JGroups falls back to the logging of the JDK."""
        (tmp_path / "jgroups.jar").touch()
        assert jgroups.class_path(tmp_path) == str(tmp_path / "jgroups.jar")


class TestOurs:
    def test_json_is_found_after_warnings(self) -> None:
        """A warning about small buffers must not hide the result."""
        output = 'warning: {small} buffers\n{\n "messages_per_second": 250000.5,\n "lost": 0\n}\n'
        assert ours.parse_bench(output) == (250000.5, 0)

    def test_an_installation_without_the_command_is_missing(self) -> None:
        """Then peers are still measured, and the row says what to install."""
        with pytest.raises(PeerMissingError, match="bench throughput"):
            ours.parse_bench("ModuleNotFoundError: No module named 'quicksilver.cli.main'\n")

    def test_a_failure_quotes_the_last_line(self) -> None:
        """The command's own error is the clearest one."""
        with pytest.raises(PeerFailedError, match="address in use"):
            ours.parse_bench("starting\nerror: address in use\n")
