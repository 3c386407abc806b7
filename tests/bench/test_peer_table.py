"""From rounds to one table of ratios."""

from __future__ import annotations

import json

import pytest

from bench.peers import run
from bench.peers.result import PeerFailedError, PeerMissingError, PeerResult
from bench.peers.table import Outcome, Row, format_table, make_row


def outcome(rate: float, *, lost: int = 0) -> Outcome:
    return Outcome(
        result=PeerResult(
            name="peer", version="1.0", messages_per_second=rate, lost=lost, note="UDP"
        )
    )


class FakePeer:
    """A peer whose runs are given in advance."""

    def __init__(self, name: str, outcomes: list[float | Exception]) -> None:
        self.NAME = name
        self.INSTALL = f"get {name}"
        self.runs = 0
        self._outcomes = outcomes

    def run(self, receivers: int, size: int, seconds: float) -> PeerResult:
        answer = self._outcomes[self.runs]
        self.runs += 1
        if isinstance(answer, Exception):
            raise answer
        return PeerResult(name=self.NAME, version="1.0", messages_per_second=answer, lost=0)


def measure(*peers: FakePeer, rounds: int) -> list[Row]:
    return run.measure(peers, receivers=4, size=1000, seconds=1.0, rounds=rounds)


class TestRow:
    def test_ratios_are_taken_within_rounds(self) -> None:
        """The machine's speed drifts between rounds; both systems of a round see the same."""
        ours = [outcome(200.0), outcome(20.0), outcome(400.0)]
        theirs = [outcome(100.0), outcome(10.0), outcome(100.0)]
        row = make_row("peer", theirs, ours)
        assert row.ratio == pytest.approx(2.0)
        assert (row.messages_per_second, row.lowest, row.highest) == (100.0, 10.0, 100.0)

    def test_losses_of_all_rounds_add_up(self) -> None:
        """One lossy round must not hide behind a median."""
        rounds = [outcome(1.0), outcome(1.0, lost=7), outcome(1.0)]
        assert make_row("peer", rounds, rounds).lost == 7

    def test_a_failed_round_is_said(self) -> None:
        """A median over fewer rounds than asked for is marked as such."""
        theirs = [outcome(100.0), Outcome(problem="failed: no view")]
        row = make_row("peer", theirs, [outcome(50.0), outcome(50.0)])
        assert row.ratio == pytest.approx(0.5)
        assert "1 of 2 rounds failed: failed: no view" in row.note

    def test_without_our_own_number_there_is_no_ratio(self) -> None:
        """Peers can be measured alone."""
        row = make_row("peer", [outcome(100.0)], [Outcome(problem="missing: x")])
        assert row.messages_per_second == 100.0
        assert row.ratio is None


class TestTable:
    def test_columns_line_up_and_gaps_are_dashes(self) -> None:
        """It is read in a terminal and pasted into documents."""
        full = make_row("peer", [outcome(123_456.0)], [outcome(246_912.0)])
        text = format_table([full, Row(name="absent", note="missing: get it")])
        lines = text.splitlines()
        assert len({len(line) for line in lines}) == 1
        assert "123 k" in lines[2]
        assert "2.00" in lines[2]
        assert lines[3].count(" - ") == 5
        assert "missing: get it" in lines[3]


class TestMeasure:
    def test_rounds_alternate_between_systems(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Noise that lasts for seconds should hit everybody."""
        measure(FakePeer("a", [1.0, 1.0]), FakePeer("b", [1.0, 1.0]), rounds=2)
        progress = [line.split()[2] for line in capsys.readouterr().err.splitlines()]
        assert progress == ["a:", "b:", "a:", "b:"]

    def test_what_is_missing_is_asked_once_and_says_how_to_get_it(self) -> None:
        """Its absence costs no time and no other row."""
        absent = FakePeer("b", [PeerMissingError("b is not installed")])
        rows = measure(FakePeer("a", [4.0, 4.0]), absent, FakePeer("c", [2.0, 2.0]), rounds=2)
        assert absent.runs == 1
        assert rows[1].note == "missing: b is not installed; install it with: get b"
        assert rows[2].ratio == pytest.approx(2.0)

    def test_a_failure_is_tried_again_in_the_next_round(self) -> None:
        """A peer that stumbles once is still compared."""
        flaky = FakePeer("b", [PeerFailedError("no view"), 5.0])
        rows = measure(FakePeer("a", [10.0, 10.0]), flaky, rounds=2)
        assert rows[1].ratio == pytest.approx(2.0)

    def test_json_has_settings_and_rows(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Programs read the same numbers as people."""
        monkeypatch.setattr(run, "ours", FakePeer("ours", [6.0]))
        monkeypatch.setattr(run, "PEERS", {"b": FakePeer("b", [2.0])})
        assert run.main(["--rounds", "1", "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["receivers"] == 4
        assert [row["ratio"] for row in answer["rows"]] == [pytest.approx(1.0), pytest.approx(3.0)]

    @pytest.mark.parametrize("wrong", [["--receivers", "0"], ["--size", "3"], ["--rounds", "0"]])
    def test_nonsense_is_refused_in_one_line(
        self, wrong: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A user's mistake gets a sentence, not a traceback."""
        with pytest.raises(SystemExit) as caught:
            run.main(wrong)
        assert caught.value.code == 2
        assert "must be" in capsys.readouterr().err.splitlines()[-1]
