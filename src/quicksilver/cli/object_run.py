"""``quicksilver object run``: open a reference and talk to it from a terminal."""

from __future__ import annotations

import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quicksilver.cli import options
from quicksilver.cli.output import emit, remark, say
from quicksilver.cli.problems import CommandError
from quicksilver.lab.ending import interruption

if TYPE_CHECKING:
    from quicksilver.cli.object_terminal import Face
    from quicksilver.live.api import SyncObject, SyncPlatform
    from quicksilver.live.monitors import Violation

LINES_MAX = 1000
SETTLE_S = 5.0
"""How long the last changes may take to reach the others."""
CLEAR = "\x1b[2J\x1b[H"


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .liveobject file.")],
    registry: Annotated[
        Path | None,
        typer.Option(
            "--registry", metavar="DIR", help="Folder of .liveobject files that references name."
        ),
    ] = None,
    gms: options.Gms = options.GMS_DEFAULT,
    is_local: Annotated[
        bool,
        typer.Option(
            "--local", is_eager=True, help="Use no network: groups exist in this process alone."
        ),
    ] = False,
    libraries: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-library",
            metavar="URL",
            help="Allow code to be loaded from this URL; if it ends in /, from all URLs below it. "
            "Can be repeated.",
        ),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys", metavar="DIR", help="Folder of the keys, which are files called NAME.key."
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            "--store",
            metavar="DIR",
            help="Folder in which objects keep what must survive a restart.",
        ),
    ] = None,
    files: Annotated[
        Path | None,
        typer.Option(
            "--files",
            metavar="DIR",
            help="Folder whose databases and spreadsheets objects may open.",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="NAME",
            help="Let platform objects run guests in this process, under this name.",
        ),
    ] = None,
    is_plain: Annotated[
        bool,
        typer.Option("--plain", help="Show every event, even if the object is a text to edit."),
    ] = False,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Report promises that the object breaks; the exit code is then 1."
        ),
    ] = False,
    interface: options.InterfaceName = None,
    verbose: options.Verbose = 0,
    log_json: options.LogJson = False,
    as_json: options.Json = False,
) -> int:
    """Open a reference and talk to the object.

    Each line that you type is an event to the object and its values, such as: send hello. Each
    line that is printed is an event from it. A text is edited by line: append, insert, replace,
    delete. Ends with quit, the end of the input, or Ctrl-C.
    """
    from quicksilver.cli.logs import start_logging
    from quicksilver.cli.waiting import waiting_for_gms
    from quicksilver.live.api import platform_in_thread
    from quicksilver.live.components.platform.hosting import Host

    start_logging(verbose, as_json=log_json)
    session = _Session(is_json=as_json, is_plain=is_plain)
    node: dict[str, Any] = {} if interface is None or is_local else {"interface": interface}
    made = platform_in_thread(
        None if is_local else gms,
        registry=registry,
        libraries=libraries or (),
        keys=keys,
        store=store,
        files=files,
        host=None if host is None else Host(name=host),
        on_failure=session.take_failure,
        **node,
    )
    with _signals(), ExitStack() as stack:
        with nullcontext() if is_local else waiting_for_gms(gms):
            platform = stack.enter_context(made)
        return session.run(platform, file, is_watched=watch)


class _Session:
    """One run of one object."""

    def __init__(self, *, is_json: bool, is_plain: bool) -> None:
        self._is_json = is_json
        self._is_plain = is_plain
        self._is_screen = sys.stdout.isatty() and not is_json
        self._lock = threading.Lock()
        self._violations = 0
        self._lost: list[str] = []
        self._is_ending = False
        self._lines: queue.Queue[str | None] = queue.Queue(LINES_MAX)
        """None: there is nothing more to do."""

    def run(self, platform: SyncPlatform, file: Path, *, is_watched: bool) -> int:
        """Run until the input ends."""
        with platform.open(file, file.stem) as opened:
            if is_watched:
                opened.watch(self.take_violation)
            face = self._attach(opened)
            try:
                self._read(face)
            except KeyboardInterrupt:
                self._settle(platform)
                raise
            problem = self._settle(platform)
        if self._lost:
            raise CommandError(f"{file}: {', '.join(self._lost)} ended: see above")
        if problem:
            raise CommandError(f"{file}: {problem}")
        return 1 if self._violations else 0

    def _settle(self, platform: SyncPlatform) -> str:
        """Let what was asked for reach the others; return what may be lost, or nothing."""
        late = [] if self._lost else platform.settle(SETTLE_S)
        self._is_ending = True
        if not late:
            return ""
        return (
            f"the last changes may be lost: after {SETTLE_S:g} s {', '.join(late)} "
            "still had some to send; is anybody else there, and the GMS reachable?"
        )

    def _attach(self, opened: SyncObject) -> Face:
        from quicksilver.cli.object_terminal import PlainFace, TextFace, find_text
        from quicksilver.live.types.model import EndpointType

        types = {
            name: type_
            for name in opened.endpoints
            if isinstance(type_ := opened.proxy.type.by_name[name], EndpointType)
        }
        text = None if self._is_plain else find_text(types)
        if text is not None:
            types = {text: types[text]}
        attached: dict[str, Any] = {}

        def speak(endpoint: str, event: str, values: tuple[Any, ...]) -> None:
            attached[endpoint].say(event, *values)

        face: Face
        if text is not None:
            face = TextFace(text, speak, self._show)
        else:
            face = PlainFace(types, speak, self._show)
        self._say_ready(opened, list(types))
        for name in types:
            attached[name] = opened.attach(
                name,
                lambda event, *values, name=name: face.take_event(name, event, values),
                on_disconnected=lambda name=name: self._lose(name),  # type: ignore[misc]
            )
        return face

    def _say_ready(self, opened: SyncObject, endpoints: list[str]) -> None:
        if self._is_json:
            emit("ready", {"object": opened.proxy.name, "endpoints": endpoints})
        elif not self._is_screen:
            remark(f"{opened.proxy.name} runs; endpoints: {', '.join(endpoints) or 'none'}")

    def _read(self, face: Face) -> None:
        """Do what the input says, until it ends or the object does."""
        threading.Thread(target=self._read_input, daemon=True).start()
        while True:
            line = self._lines.get()
            if line is None or line.strip() == "quit":
                return
            if line.strip():
                self._do(face, line.rstrip("\n"))

    def _read_input(self) -> None:
        for line in sys.stdin:
            self._lines.put(line)
        self._lines.put(None)

    def _do(self, face: Face, line: str) -> None:
        from quicksilver.cli.object_terminal import LineError

        try:
            face.take_line(line)
        except LineError as error:
            self._show({"event": "error", "text": str(error)}, f"? {error}")

    # Also called on the platform's thread

    def _show(self, event: dict[str, Any], words: str) -> None:
        with self._lock:
            if self._is_json:
                emit(event["event"], {k: v for k, v in event.items() if k != "event"})
            elif self._is_screen and event.get("event") == "changed":
                sys.stdout.write(CLEAR)
                say(words)
            else:
                say(words.rstrip("\n"))

    def _lose(self, endpoint: str) -> None:
        if not self._is_ending:
            self._lost.append(endpoint)
            # The main thread may be waiting for room to put a line in: it is taken out.
            while True:
                try:
                    self._lines.put_nowait(None)
                    return
                except queue.Full:
                    self._lines.get_nowait()

    def take_failure(self, failure: Exception) -> None:
        """Tell of a component that failed."""
        self._show({"event": "failure", "text": str(failure)}, f"! {failure}")

    def take_violation(self, endpoint: str, violation: Violation) -> None:
        """Tell of a promise that was broken."""
        self._violations += 1
        text = f"{endpoint}: {violation}"
        self._show({"event": "violation", "text": text}, f"! {text}")


@contextmanager
def _signals() -> Iterator[None]:
    """Let SIGTERM end it as Ctrl-C does: objects are closed, groups are left."""

    def interrupt(number: int, frame: object) -> None:
        raise interruption(number)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
