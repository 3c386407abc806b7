"""Starting, watching and stopping processes of this machine.

All processes that a ``Children`` block has started are gone when it ends, however
it ends: by an error, Ctrl-C, SIGTERM or SIGHUP as well, which raise
KeyboardInterrupt in it. Each child leads a session of its own, so that Ctrl-C in a
terminal reaches the parent alone, which stops the children in order.

A child is started with the usual answer to every signal, even where this process
was started with one ignored, as a shell does with SIGINT for a background job: a
program inherits signals that are ignored, but not handlers.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any, Self, TypeVar

import msgspec

from quicksilver.lab.child import parent_environment
from quicksilver.lab.ending import interruption
from quicksilver.stdx.errors import QuicksilverError

STOP_S = 3.0
"""How long children may take to end by themselves."""
_POLL_S = 0.01
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

T = TypeVar("T", bound=msgspec.Struct)


class ChildError(QuicksilverError):
    """A process ended or fell silent before it had said what was expected."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"process {self.name}: {self.problem}"


class ProgramMissingError(ChildError):
    """The program to start is not installed."""


class GmsReady(msgspec.Struct, frozen=True, tag="ready", tag_field="event"):
    """What ``quicksilver gms --json`` says when it listens."""

    address: str


class Child:
    """One process: orders go in and lines come out."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], inbox: Inbox | None) -> None:
        self.name = name
        self.last_words = ""
        """The last line that it wrote on standard error, or that nobody had waited for."""
        self._process = process
        self._inbox: Inbox = queue.SimpleQueue() if inbox is None else inbox
        self._readers = [
            self._read(process.stdout, self._put),
            self._read(process.stderr, self._note),
        ]

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative number of the signal that killed it."""
        return self._process.poll()

    def _read(
        self, stream: IO[bytes] | None, handle: Callable[[str | None], None]
    ) -> threading.Thread:
        # A thread for each stream: a child that says more than a pipe holds must not wait.
        assert stream is not None

        def run() -> None:
            with stream:
                for line in stream:
                    handle(line.decode(errors="replace").rstrip("\n"))
            handle(None)

        thread = threading.Thread(target=run, name=f"reads {self.name}", daemon=True)
        thread.start()
        return thread

    def _put(self, line: str | None) -> None:
        self._inbox.put((self, line))

    def _note(self, line: str | None) -> None:
        if line and line.strip():
            self.last_words = line.strip().removeprefix("quicksilver: ")

    # Listening

    def lines(self, timeout_s: float, wanted: str = "its end") -> Iterator[str]:
        """Yield what it prints, until it ends; raises ChildError when that takes too long."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                _, line = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                said = f"; it said: {self.last_words}" if self.last_words else ""
                raise ChildError(self.name, f"no {wanted} within {timeout_s:g} s{said}") from None
            if line is None:
                return
            yield line

    def expect_line(self, word: str, timeout_s: float) -> str:
        """Return the next line that begins with ``word``; skip others."""
        for line in self.lines(timeout_s, repr(word)):
            if line.startswith(word):
                return line
            self._note(line)
        raise self._ended(repr(word))

    def expect(self, kind: type[T], timeout_s: float) -> T:
        """Return the next line of that kind; skip others, and lines that are none."""
        tag = kind.__struct_config__.tag
        field = kind.__struct_config__.tag_field
        for line in self.lines(timeout_s, repr(tag)):
            try:
                found = msgspec.json.decode(line)
            except msgspec.DecodeError:
                self._note(line)  # of a library, for example
                continue
            if isinstance(found, dict) and found.get(field) == tag:
                # Keys of mappings are text in JSON, whatever they were.
                return msgspec.convert(found, kind, strict=False)
        raise self._ended(repr(tag))

    def _ended(self, wanted: str) -> ChildError:
        code = self._process.wait()
        self._readers[1].join(STOP_S)
        reason = self.last_words or f"exit code {code}"
        return ChildError(self.name, f"ended before {wanted}: {reason}")

    # Steering

    def tell(self, order: Any) -> None:
        """Send one object as a JSON line; what a dead child misses does not matter."""
        self.tell_line(msgspec.json.encode(order).decode())

    def tell_line(self, line: str) -> None:
        """Send one line; what a dead child misses does not matter."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def wait(self, timeout_s: float) -> int:
        """Close its input and wait for its end; returns its exit code."""
        self.close_input()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ChildError(self.name, f"did not end within {timeout_s:g} s") from None

    def send_signal(self, number: int) -> None:
        """Send it a signal; one that has ended does not mind."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it and what it started at once, as a crash would."""
        if self.exit_code is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def close_input(self) -> None:
        """Give no more orders: children of the laboratory end by themselves then."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def _reap(self) -> None:
        self.close_input()
        self._process.wait()
        for reader in self._readers:
            # One that has left a process of its own behind may keep a stream open.
            reader.join(0.5)


Inbox = queue.SimpleQueue[tuple[Child, str | None]]
"""Lines of one child or of several, each with its child; None: its output has ended."""


class Children:
    """Starts processes and stops all of them at the end of the block, whatever happened."""

    def __init__(self) -> None:
        self.running: list[Child] = []
        self._signals = _Signals()

    def __enter__(self) -> Self:
        self._signals.install()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._signals.hold()
        finally:
            self._stop()
        self._signals.restore()
        if error is None:
            self._signals.raise_held()

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        inbox: Inbox | None = None,
    ) -> Child:
        """Start a program as a child called ``name``; raises ProgramMissingError.

        ``inbox`` collects the lines of several children, for whoever watches them all.
        """
        # A signal in between would leave a process that nobody stops.
        with self._signals.held():
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**parent_environment(), **(environment or {})},
                    cwd=folder,
                    start_new_session=True,
                )
            except (FileNotFoundError, PermissionError):
                # Refused is what a search through a folder of the PATH that is not ours says.
                raise ProgramMissingError(name, f"{command[0]} is not installed") from None
            try:
                child = Child(name, process, inbox)
            except BaseException:  # no thread could be started, for example
                with process:
                    process.kill()
                raise
            self.running.append(child)
        return child

    def start_python(
        self, name: str, module: str, *arguments: str, prefix: Sequence[str] = (), **options: Any
    ) -> Child:
        """Start ``python -m module``; ``prefix`` stands before it, ``options`` are ``start``'s."""
        command = [*prefix, sys.executable, "-X", "faulthandler", "-m", module, *arguments]
        return self.start(name, command, **options)

    def start_gms(self, *options: str, host: str = "127.0.0.1", prefix: Sequence[str] = ()) -> str:
        """Start a GMS on free ports; returns its address.

        A multicast port of its own keeps other clusters' packets, which would only
        be dropped, away from this one's sockets.
        """
        ports = ("--port", "0", "--multicast-port", str(free_udp_port()))
        arguments = ("gms", "--host", host, *ports, "--json", *options)
        child = self.start_python("gms", "quicksilver.cli.main", *arguments, prefix=prefix)
        return child.expect(GmsReady, 20.0).address

    def release(self, child: Child) -> int:
        """Wait for a child that ends, and keep nothing of it; returns its exit code."""
        child._reap()
        self.running.remove(child)
        code = child.exit_code
        assert code is not None
        return code

    def _stop(self) -> None:
        """Stop the last ones first: later ones depend on earlier ones, such as a GMS."""
        deadline = time.monotonic() + STOP_S
        try:
            for part in (self.running[1:], self.running[:1]):
                for child in reversed(part):
                    # One that is halted does not hear anything else.
                    child.send_signal(signal.SIGTERM)
                    child.send_signal(signal.SIGCONT)
                while any(child.exit_code is None for child in part):
                    # A second Ctrl-C means: at once.
                    if time.monotonic() > deadline or self._signals.count > 1:
                        break
                    time.sleep(_POLL_S)
        finally:
            for child in self.running:
                child.kill()
            for child in self.running:
                child._reap()


class _Signals:
    """Turns the signals that ask a program to end into KeyboardInterrupt, or holds them.

    Only the main thread may do that; elsewhere signals stay as they are.
    """

    def __init__(self) -> None:
        self.count = 0
        """Signals so far."""
        self._is_held = False
        self._held = 0
        """The first signal that came while signals were held; 0: none."""
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _ENDING:
            before = signal.getsignal(number)
            if before is None:
                continue  # not Python's: it could not be put back
            self._before[number] = before
            is_ignored = before is signal.SIG_IGN or before is _ignore
            signal.signal(number, _ignore if is_ignored else self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.count += 1
        if not self._is_held:
            raise interruption(number)
        self._held = self._held or number

    def hold(self) -> None:
        self._is_held = True

    def raise_held(self) -> None:
        self._is_held = False
        if self._held:
            number, self._held = self._held, 0
            raise interruption(number)

    @contextmanager
    def held(self) -> Iterator[None]:
        self.hold()
        try:
            yield
        finally:
            self.raise_held()

    def restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)


def _ignore(number: int, frame: FrameType | None) -> None:
    """As SIG_IGN, but not inherited by programs that are started."""


def free_udp_port() -> int:
    """Return a port of this machine that nobody has at present."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
