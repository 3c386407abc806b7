"""A hosted object on this node: opened within limits, watched, ended (2.1.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quicksilver.live.components.platform.hosting_state import Move, Stop
from quicksilver.live.references.errors import LiveReferenceError
from quicksilver.live.references.xml import parse
from quicksilver.live.runtime.allowance import Allowance
from quicksilver.live.runtime.connections import Attachment
from quicksilver.live.runtime.errors import LiveRuntimeError
from quicksilver.live.runtime.promises import Task
from quicksilver.live.runtime.proxies import Proxy
from quicksilver.live.runtime.remote.publishing import Publisher

if TYPE_CHECKING:
    from quicksilver.live.components.platform.hosting import Platform


class Guest:
    """One object that is to run here."""

    def __init__(self, platform: Platform, name: str) -> None:
        self._platform = platform
        self.name = name
        self.allowance = Allowance(platform.host.limits, f"the guest {name!r}")
        self._task: Task[None] | None = None
        self._proxy: Proxy | None = None
        self._attachment: Attachment | None = None
        self._addresses: dict[str, str] = {}
        self._publisher: Publisher | None = None
        self._is_over = False

    @property
    def port(self) -> Any:
        """The guest's own way to the platform, if it has an endpoint for it."""
        if self._attachment is None or not self._attachment.is_connected:
            return None
        return self._attachment.port

    def open(self, text: str) -> None:
        """Begin to open it; what becomes of it is reported."""
        self._task = self._platform.context.spawn(self._open(text))

    def refuse(self, reason: str) -> None:
        """Do not open it."""
        self._is_over = True
        self._platform.report(self.name, "failed", reason)

    async def _open(self, text: str) -> None:
        context = self._platform.context
        try:
            reference = parse(text).reference
            proxy = await context.open(reference, self.name, allowance=self.allowance)
        except (LiveReferenceError, LiveRuntimeError) as error:
            self.refuse(str(error))
            return
        if self._is_over:
            proxy.close()
            return
        self._proxy = proxy
        for cell in proxy.cells:
            cell.hold(_Watch(self))
        self._give_hosting(proxy)
        self._platform.report(self.name, "started")

    def _give_hosting(self, proxy: Proxy) -> None:
        """Connect an endpoint of the guest that is made for it to the platform."""
        platform = self._platform
        runtime = platform.context.runtime
        ours = platform.context.reference_to(platform.hosting)
        for endpoint in proxy.endpoints():
            if endpoint.is_connected or not endpoint.type.outputs:
                continue
            if runtime.checker.check_match(ours.type, endpoint.type) is None:
                self._attachment = runtime.attach(
                    endpoint, self._take_request, name=f"{platform.context.name}.{self.name}.host"
                )
                platform.tell_all(self._attachment.port)
                return

    def _take_request(self, event: str, *values: Any) -> None:
        platform, port = self._platform, self.port
        if port is None:
            return
        match event, values:
            case "start", (name, reference, hosts):
                platform.request_start(name, reference, hosts, port, self.name)
            case "reach", (name, host, endpoint):
                platform.request_reach(name, host, endpoint, port)
            case (("move" | "stop"), (name, *_)) if not self._is_mine(name):
                port.refused(name, "a guest moves and stops itself and what it started")
            case "move", (name, hosts):
                platform.request(Move(name, tuple(hosts)), name, port)
            case "stop", (name,):
                platform.request(Stop(name), name, port)
            case _, (name, *_):
                port.refused(name, f"a guest cannot ask for {event}")
            case _:
                pass

    def _is_mine(self, name: str) -> bool:
        """Whether an object is this guest, or was started by it or by one of its own."""
        objects = self._platform.state.objects
        for _ in range(len(objects) + 1):
            if name == self.name:
                return True
            hosted = objects.get(name)
            if hosted is None or not hosted.parent:
                return False
            name = hosted.parent
        return False

    def publish(self, endpoint: str, publisher: Publisher) -> str:
        """Return where an endpoint can be connected to; raises LiveRuntimeError."""
        if self._proxy is None:
            raise LiveRuntimeError("it has not started")
        if endpoint not in self._addresses:
            found = self._proxy.endpoint(endpoint)
            self._publisher = publisher
            self._addresses[endpoint] = publisher.publish(found)
        return self._addresses[endpoint]

    def notice_end(self) -> None:
        """A component of the guest ended: if it was not closed, that is a failure."""
        if self._is_over or self._proxy is None:
            return
        failures = self._proxy.failures
        if failures:
            self.close()
            self._platform.report(self.name, "failed", str(failures[0]))

    def close(self) -> None:
        """End it, or do not open it any more."""
        if self._is_over:
            return
        self._is_over = True
        for address in self._addresses.values():
            if self._publisher is not None:
                self._publisher.withdraw(address)
        if self._task is not None:
            self._task.cancel()
        if self._proxy is not None:
            self._proxy.close()


class _Watch:
    """Held by a guest's component: closed when that ends."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    def close(self) -> None:
        self._guest.notice_end()
