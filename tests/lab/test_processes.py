"""Processes of the laboratory: what they say is heard, and they end with their block."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from quicksilver.lab.processes import Child, ChildError, Children, Inbox, ProgramMissingError

pytestmark = pytest.mark.slow

SAYS_PID = "import os, time; print('pid', os.getpid(), flush=True); "
SLEEPER = SAYS_PID + "time.sleep(60)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER
PARENT = f"""
import sys
from quicksilver.lab.processes import Children
with Children() as children:
    child = children.start("child", [sys.executable, "-c", {SLEEPER!r}])
    print(child.expect_line("pid", 20), flush=True)
    list(child.lines(60))
"""


class Answer(msgspec.Struct, frozen=True, tag="answer", tag_field="event"):
    value: int


def python(children: Children, code: str, inbox: Inbox | None = None) -> Child:
    return children.start("python", [sys.executable, "-c", code], inbox=inbox)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def pid_of(line: str) -> int:
    return int(line.split()[1])


class TestEnding:
    def test_children_are_gone_when_the_block_fails(self) -> None:
        """A failed measurement must not disturb the next one."""
        pids: list[int] = []

        def fail() -> None:
            with Children() as children:
                pids.append(pid_of(python(children, SLEEPER).expect_line("pid", 20)))
                assert is_alive(pids[0])
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert not is_alive(pids[0])

    def test_one_that_does_not_listen_is_killed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("quicksilver.lab.processes.STOP_S", 0.2)
        with Children() as children:
            pid = pid_of(python(children, STUBBORN).expect_line("pid", 20))
        assert not is_alive(pid)

    def test_one_that_is_halted_ends_as_well(self) -> None:
        """As experiments halt processes to see what the others do."""
        with Children() as children:
            child = python(children, SLEEPER)
            pid = pid_of(child.expect_line("pid", 20))
            child.send_signal(signal.SIGSTOP)
        assert not is_alive(pid)

    def test_killing_takes_what_a_child_started(self) -> None:
        """Programs of others start programs."""
        code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEPER!r}])"
        with Children() as children:
            child = python(children, code)
            pid = pid_of(child.expect_line("pid", 20))
            child.kill()
        wait_until(lambda: not is_alive(pid), "a grandchild lives on")

    def test_one_that_cannot_be_watched_is_not_left_behind(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where there are too many threads already, for example."""

        def fail(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        mine = Path(f"/proc/self/task/{threading.get_native_id()}/children")
        before = mine.read_text()
        with Children() as children:
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", fail)
                with pytest.raises(RuntimeError):
                    python(children, SLEEPER)
            assert mine.read_text() == before

    @pytest.mark.parametrize(
        ("number", "error"),
        [
            (signal.SIGINT, "KeyboardInterrupt"),
            (signal.SIGTERM, "Terminated: 15"),
            (signal.SIGHUP, "Terminated: 1"),
        ],
    )
    def test_a_signal_ends_the_block_and_the_children(self, number: int, error: str) -> None:
        """Whoever stops a measurement stops all of it."""
        with Children() as children:
            parent = python(children, PARENT)
            pid = pid_of(parent.expect_line("pid", 20))
            parent.send_signal(number)
            with pytest.raises(ChildError, match=error):
                parent.expect_line("more", 20)
            assert parent.exit_code != 0
            assert not is_alive(pid)

    def test_a_second_signal_does_not_wait_for_the_stubborn(self) -> None:
        """Who presses Ctrl-C again means it, and still nothing is left behind."""
        code = PARENT.replace(repr(SLEEPER), repr(STUBBORN)).replace(
            "with Children", "import quicksilver.lab.processes as p; p.STOP_S = 500\nwith Children"
        )
        with Children() as children:
            parent = python(children, code)
            pid = pid_of(parent.expect_line("pid", 20))
            parent.send_signal(signal.SIGINT)
            time.sleep(0.3)
            assert parent.exit_code is None
            parent.send_signal(signal.SIGINT)
            with pytest.raises(ChildError, match="KeyboardInterrupt"):
                parent.expect_line("more", 20)
            assert not is_alive(pid)

    def test_signals_are_answered_as_before_when_the_block_is_over(self) -> None:
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        with Children():
            assert signal.getsignal(signal.SIGTERM) is not before[1]
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before

    def test_a_child_of_a_background_job_gets_its_signals(self) -> None:
        """A shell starts background jobs with SIGINT ignored, and programs inherit that."""
        answer = "import signal; print('SIGINT', signal.getsignal(signal.SIGINT).__name__)"
        code = f"""
import signal, sys
assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
from quicksilver.lab.processes import Children
with Children() as children:
    child = children.start("child", [sys.executable, "-c", {answer!r}])
    print(child.expect_line("SIGINT", 20))
    signal.raise_signal(signal.SIGINT)  # still ignored here
assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
"""
        shell = f"trap '' INT; exec {sys.executable} -c \"$0\""
        done = subprocess.run(
            ["sh", "-c", shell, code], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.stdout.strip() == "SIGINT default_int_handler", done.stderr


class TestSpeaking:
    def test_a_report_is_found_among_other_lines(self) -> None:
        """Libraries print what they like."""
        code = """
print('welcome')
print('{"event": "other"}')
print('{"event": "answer", "value": 7}', flush=True)
"""
        with Children() as children:
            assert python(children, code).expect(Answer, 20) == Answer(7)

    def test_orders_go_in_and_the_end_of_the_line_is_heard(self) -> None:
        code = "import sys; print('got', *[line.strip() for line in sys.stdin])"
        with Children() as children:
            child = python(children, code)
            child.tell(Answer(1))
            child.tell_line("go")
            assert child.wait(20) == 0
            assert child.expect_line("got", 20) == 'got {"event":"answer","value":1} go'

    def test_telling_the_dead_is_no_error(self) -> None:
        """It may die at any moment; who waits for its answer learns of it."""
        with Children() as children:
            child = python(children, "pass")
            wait_until(lambda: child.exit_code is not None, "it does not end")
            child.tell_line("nobody hears this")

    def test_waiting_is_limited(self) -> None:
        """One that hangs costs its time limit and no more."""
        with Children() as children:
            child = python(children, SLEEPER)
            child.expect_line("pid", 20)
            with pytest.raises(ChildError, match=r"process python: no 'report' within 0\.05 s"):
                child.expect_line("report", 0.05)
            with pytest.raises(ChildError, match="did not end within"):
                child.wait(0.05)

    def test_last_words_are_quoted(self) -> None:
        """When a process dies, its own error is the best explanation."""
        with Children() as children:
            child = python(children, "raise SystemExit('no such stack')")
            with pytest.raises(ChildError) as caught:
                child.expect(Answer, 20)
        assert str(caught.value) == "process python: ended before 'answer': no such stack"

    def test_one_that_says_nothing_is_told_by_its_exit_code(self) -> None:
        with Children() as children, pytest.raises(ChildError, match="exit code 3"):
            python(children, "raise SystemExit(3)").expect_line("ready", 20)

    def test_many_can_be_watched_at_once(self) -> None:
        inbox: Inbox = queue.SimpleQueue()
        with Children() as children:
            started = [python(children, f"print({number})", inbox) for number in range(3)]
            heard = [inbox.get(timeout=20) for _ in range(6)]
        assert sorted(line for _, line in heard if line is not None) == ["0", "1", "2"]
        assert {child for child, line in heard if line is None} == set(started)

    def test_words_do_not_depend_on_the_locale(self) -> None:
        """Groups have names in any language."""
        code = """
from quicksilver.lab.child import next_order, tell
tell(next_order(dict))
"""
        plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        with Children() as children:
            child = children.start("child", [sys.executable, "-c", code], environment=plain)
            child.tell({"event": "answer", "value": 3, "group": "größe"})
            assert child.expect_line("{", 20).endswith('"group":"größe"}')

    def test_more_than_a_pipe_holds_does_not_stop_a_child(self) -> None:
        """Nobody reads while the parent is busy elsewhere."""
        code = "import sys; sys.stderr.write('x' * 300_000); print('y' * 300_000); print('done')"
        with Children() as children:
            child = python(children, code)
            assert child.wait(20) == 0
            assert child.expect_line("done", 20) == "done"

    def test_a_program_that_does_not_exist_is_missing(self) -> None:
        """Missing is told apart from failing: it can be installed."""
        with Children() as children, pytest.raises(ProgramMissingError, match="no-such-program"):
            children.start("peer", ["no-such-program"])

    def test_a_child_ends_with_its_parent(self) -> None:
        """SIGKILL leaves no time to clean up; the kernel does it."""
        code = "from quicksilver.lab.child import die_with_parent; die_with_parent(); " + SLEEPER
        parent = PARENT.replace(repr(SLEEPER), repr(code))
        process = subprocess.Popen(
            [sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            pid = pid_of(process.stdout.readline())
        finally:
            process.kill()
            process.communicate()
        wait_until(lambda: not is_alive(pid), "a child lives on")
        assert os.getpid() != pid
