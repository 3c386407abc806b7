"""Child processes that speak JSON lines, supervised from one event loop."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self

import msgspec

from quicksilver.cli.cluster.mortality import parent_environment
from quicksilver.cli.problems import CommandError

LINE_BYTES_MAX = 16 << 20
STOP_S = 3.0
"""How long a child may take to end by itself."""


class ChildError(CommandError):
    """A child ended or fell silent before it had said what was expected."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"process {self.name}: {self.problem}"


class Child:
    """One process; its standard output is a stream of JSON objects."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.process = process
        self.last_words = ""
        """The last line that it wrote on standard error."""
        self._errors = asyncio.create_task(self._read_errors())

    @property
    def pid(self) -> int:
        return self.process.pid

    async def _read_errors(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            text = line.decode(errors="replace").strip()
            if text:
                self.last_words = text.removeprefix("quicksilver: ")

    async def tell(self, value: Any) -> None:
        """Send one object to the child; what a dead one misses does not matter."""
        assert self.process.stdin is not None
        with suppress(ConnectionError):
            self.process.stdin.write(msgspec.json.encode(value) + b"\n")
            await self.process.stdin.drain()

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield what the child says until it ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            try:
                value = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue  # a stray line, of a library for example
            if isinstance(value, dict):
                yield value

    async def expect(self, event: str, timeout_s: float) -> dict[str, Any]:
        """Return the next event of that name; others are skipped."""
        try:
            async with asyncio.timeout(timeout_s):
                async for found in self.events():
                    if found.get("event") == event:
                        return found
                await self.process.wait()
                await self._errors
        except TimeoutError:
            raise ChildError(self.name, f"not {event} within {timeout_s:g} s") from None
        raise ChildError(self.name, self.last_words or f"ended before it was {event}")

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        self._signal(signal.SIGKILL)

    async def stop(self) -> None:
        """End the process, gently first."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_S):
                await self.process.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self.process.wait()
        self._errors.cancel()

    def _signal(self, number: int) -> None:
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)


class Children:
    """Starts processes and stops all of them on exit, whatever happened."""

    def __init__(self) -> None:
        self.running: list[Child] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The first processes are the ones that later ones depend on.
        await asyncio.gather(*(child.stop() for child in self.running[1:]))
        await asyncio.gather(*(child.stop() for child in self.running[:1]))

    async def start(self, name: str, arguments: Sequence[str]) -> Child:
        """Run ``python -m`` with the arguments as a child called ``name``."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=parent_environment(),
            limit=LINE_BYTES_MAX,
            # Ctrl-C goes to the parent alone, which stops the children in order.
            start_new_session=True,
        )
        child = Child(name, process)
        self.running.append(child)
        return child

    async def start_gms(self, *options: str) -> str:
        """Start a GMS on free ports of this machine; returns its address.

        A multicast port of its own keeps other clusters' packets, which would
        only be dropped, away from this one's sockets.
        """
        ports = ["--port", "0", "--multicast-port", str(_free_udp_port())]
        child = await self.start("gms", ["quicksilver.cli.main", "gms", *ports, "--json", *options])
        ready = await child.expect("ready", 10.0)
        return str(ready["address"])


def _free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def local_cluster(gms: str | None) -> AsyncIterator[tuple[Children, str]]:
    """Yield children and the address of a GMS, which is one of them if none is given."""
    async with Children() as children:
        yield children, gms if gms is not None else await children.start_gms()
