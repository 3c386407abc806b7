"""A simulated machine: what ``net.host`` is to real sockets, this is to virtual ones.

It takes the same turns as the core thread (``core.turn``). Each step costs processor
time by the model, charged where the turn reads and sends, so a turn begins at one
moment and ends at a later one; what arrives meanwhile waits in kernel buffers of
limited size, and what leaves waits for the card. Time, as the session sees it, is the
host's own clock, which may drift.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from quicksilver.core.ports import Arrival, ControlEvent, SessionPort
from quicksilver.core.turn import Turn
from quicksilver.sim.events import EventQueue
from quicksilver.sim.machine import SharedCpu
from quicksilver.sim.model import HostModel
from quicksilver.sim.network import VirtualNetwork
from quicksilver.sim.weather import Weather
from quicksilver.stdx.rand import Rng
from quicksilver.wire.ids import Address
from quicksilver.wire.packets import KIND_DATA, KIND_HYBRID, KIND_REPAIR

TURN_SPACING_S = 1e-6
"""Between two turns of a host whose work costs nothing: time must pass."""

_DATA_KINDS = frozenset({KIND_DATA, KIND_REPAIR, KIND_HYBRID})


@dataclass(slots=True)
class HostCounters:
    """What happened to a host's datagrams, and what its processor did."""

    alarms: int = 0
    alarm_delay_s: float = 0.0
    """How late alarms fired, in sum …"""
    alarm_delay_s_max: float = 0.0
    """… and in one turn at most; whoever samples it sets it back."""
    busy_s: float = 0.0
    port_drops: int = 0
    received: int = 0
    receive_drops: int = 0
    sent: int = 0
    turns: int = 0


class KernelBuffer:
    """Datagrams that arrived and were not read."""

    __slots__ = ("bytes", "limit", "queue")

    def __init__(self, limit: int) -> None:
        self.queue: deque[tuple[float, bytes, Address]] = deque()
        """(when the card has delivered it, bytes, source)"""
        self.bytes = 0
        self.limit = limit


class ControlEnd(Protocol):
    """A process's end of its stream to the GMS."""

    def is_control_open(self) -> bool: ...

    def send_control(self, frame: bytes, /) -> None: ...

    def close_control(self, reason: str, now: float, /) -> None: ...

    def poll_control_event(self, now: float) -> ControlEvent | None: ...


class SimHost:
    """One machine with one process on it, which runs one session."""

    def __init__(
        self,
        events: EventQueue,
        network: VirtualNetwork,
        session: SessionPort,
        *,
        index: int,
        address: Address,
        model: HostModel,
        rng: Rng,
        control: ControlEnd,
        on_events: Callable[[], None],
        memory: Callable[[], int],
        shared_cpu: SharedCpu | None = None,
    ) -> None:
        """``control`` is the process's end of its stream to the GMS; ``on_events`` takes
        the session's events; ``memory`` tells how many bytes of packets the process
        holds; ``shared_cpu``: the machine that it shares with other hosts."""
        self.index = index
        self.address = address
        self.model = model
        self.session = session
        self.turn = Turn(session, self, on_events=on_events)
        self.is_control_open = control.is_control_open
        self.send_control = control.send_control
        self.close_control = control.close_control
        self.poll_control_event = control.poll_control_event
        self.weather = Weather(rng.derive("weather"))
        self.counters = HostCounters()
        self.is_dead = False
        self.frozen_until = 0.0
        self.drift = 0.0
        """Its clock gains this many seconds a second."""
        self.clock_offset_s = 0.0
        self._events = events
        self._network = network
        self._memory = memory
        self._cpu = model.cpu
        self._factor = 1.0
        self._unicast = KernelBuffer(model.unicast_buffer_bytes)
        self._multicast = KernelBuffer(model.multicast_buffer_bytes)
        self._sends_free_at = 0.0
        self._receives_free_at = 0.0
        self._local = 0.0
        """World time that the processor has reached; ahead of now within a turn."""
        self._next_turn: float | None = None
        """When the next turn is to begin …"""
        self._io_at = -1.0
        """… the last time that an event was set for by itself …"""
        self._alarm_at: float | None = None
        """… and the event under way that stands for all alarms."""
        self._begin = self._begin_turn
        self._shared_cpu = shared_cpu
        self._waits_for_core = False
        self._has_core = False
        """True between two turns of one time slice."""
        self._slice_until = 0.0
        self._is_asleep = False
        self._cold_left_s = 0.0
        """Processor time that cold caches will still cost."""
        self._rate = model.nic_bytes_per_s
        self._port_buffer_bytes = model.port_buffer_bytes
        self._is_in_turn = False
        self._addresses: frozenset[str] = frozenset()
        network.attach(self)

    # Time

    def clock(self) -> float:
        """The host's own clock, at the moment its processor has reached."""
        return self._local * (1.0 + self.drift) + self.clock_offset_s

    def world_time(self, host_time: float) -> float:
        """Return when the host's clock shows a time."""
        return (host_time - self.clock_offset_s) / (1.0 + self.drift)

    def set_drift(self, drift: float) -> None:
        """Let the clock run faster or slower from now on; it never jumps."""
        shown = self.clock()
        self.drift = drift
        self.clock_offset_s = shown - self._local * (1.0 + drift)

    def set_slowness(self, factor: float) -> None:
        """Let everything take ``factor`` times as long."""
        self._cpu = self.model.cpu.slowed(factor)

    def charge(self, seconds: float) -> None:
        """The process computes for a while."""
        spent = seconds * self._factor
        if self._cold_left_s:
            spent += self._warm_up(spent)
        self._local += spent
        self.counters.busy_s += spent

    def _warm_up(self, spent: float) -> float:
        """Return what work takes longer because caches are cold."""
        extra = min(spent, self._cold_left_s)
        self._cold_left_s -= extra
        return extra

    def charge_wake(self) -> None:
        """The process was asleep; what that costs is measured with caches cold already."""
        cold, self._cold_left_s = self._cold_left_s, 0.0
        self.charge(self._cpu.wake_s)
        self._cold_left_s = cold

    def charge_sent(self, messages: int) -> None:
        self.charge(messages * self._cpu.send_message_s)

    def charge_delivered(self, messages: int) -> None:
        self.charge(messages * self._cpu.deliver_message_s)

    # Life

    def submit(self, request: Callable[[], None]) -> None:
        """Have the process do something soon, as an application thread would."""
        if self.is_dead:
            return
        self.turn.scheduler.submit(request)
        self._wake(self._events.now)

    def submit_disk(self, completion: Callable[[], None]) -> None:
        """Have the process take note that its disk has done something."""
        if not self.is_dead:
            self.turn.scheduler.submit_disk(completion)
            self._wake(self._events.now)

    def handle_control(self) -> None:
        """Something came on the stream to the GMS."""
        if not self.is_dead:
            self.turn.look_at_control()
            self._wake(self._events.now)

    def freeze(self, seconds: float) -> None:
        """The process stops; its card and its kernel go on."""
        self.frozen_until = max(self.frozen_until, self._events.now + seconds)

    def thaw(self) -> None:
        """The process goes on, however long it was to be stopped."""
        self.frozen_until = 0.0
        if not self.is_dead:
            self._next_turn = None
            self._wake(self._events.now)

    def kill(self) -> None:
        """The process ends at once; all that it had is lost."""
        self.is_dead = True
        self._drop_core()
        self._network.detach(self)

    # Arrival

    def receive(self, packet: bytes, source: Address, *, is_multicast: bool) -> None:
        now = self._events.now
        size = len(packet)
        rate = self._rate
        ready = now
        if rate:
            ready = self._receives_free_at
            if ready < now:
                ready = now
            elif (ready - now) * rate > self._port_buffer_bytes:
                self.counters.port_drops += 1
                return
            ready += size / rate
            self._receives_free_at = ready
        buffer = self._multicast if is_multicast else self._unicast
        if buffer.bytes + size > buffer.limit:
            self.counters.receive_drops += 1
            return
        buffer.bytes += size
        buffer.queue.append((ready, packet, source))
        if not self._is_in_turn:
            next_turn = self._next_turn
            if next_turn is None or next_turn > ready:
                self._wake(ready)

    # Turns

    def _wake(self, when: float) -> None:
        """Let a turn begin at a time, or as soon after it as the processor is free."""
        if when < self._local:
            when = self._local
        if when < self._events.now:
            when = self._events.now
        if self._is_in_turn or (self._next_turn is not None and self._next_turn <= when):
            return
        self._next_turn = self._io_at = when
        self._events.at(when, self._begin)

    def _set_alarm(self, when: float) -> None:
        """Let a turn begin when an alarm is due; most alarms move before that.

        An event that is already under way and comes no later is good enough: it
        finds that it is early and takes the alarm further.
        """
        if self._next_turn is not None and self._next_turn <= when:
            return
        self._next_turn = when
        if self._alarm_at is None or self._alarm_at > when:
            self._alarm_at = when
            self._events.at(when, self._begin)

    def _begin_turn(self) -> None:
        now = self._events.now
        if self._alarm_at is not None and self._alarm_at <= now:
            self._alarm_at = None
        due = self._next_turn
        if due is None or self.is_dead:
            return
        if due > now:
            if due != self._io_at and self._alarm_at is None:
                self._alarm_at = due
                self._events.at(due, self._begin)
            return
        if now < self.frozen_until:
            self._drop_core()
            self._next_turn = self._io_at = self.frozen_until
            self._events.at(self.frozen_until, self._begin)
            return
        cpu = self._shared_cpu
        if cpu is None:
            self._run_turn()
        elif self._has_core:
            self._run_shared(cpu)
        elif not self._waits_for_core:
            if cpu.take(self.index, self._take_core, woke=self._is_asleep):
                self._begin_slice(cpu, now)
            else:
                self._waits_for_core = True

    def _take_core(self) -> None:
        """The core that a turn waited for is free, and taken."""
        cpu = self._shared_cpu
        assert cpu is not None
        self._waits_for_core = False
        now = self._events.now
        if self.is_dead or now < self.frozen_until:
            cpu.give_back(self.index, now)
            self._begin_turn()
            return
        self._begin_slice(cpu, now)

    def _begin_slice(self, cpu: SharedCpu, now: float) -> None:
        self._slice_until = now + cpu.slice_s
        costs = self._cpu
        others = cpu.others_since(self.index)
        self._cold_left_s = min(costs.cold_s * others, costs.cold_s_max)
        self._run_shared(cpu)

    def _drop_core(self) -> None:
        """The process stops in the middle of its time slice."""
        if self._has_core and self._shared_cpu is not None:
            self._has_core = False
            self._shared_cpu.give_back(self.index, self._events.now)

    def _run_shared(self, cpu: SharedCpu) -> None:
        busy = self.counters.busy_s
        self._has_core = False
        self._run_turn()
        cpu.charge(self.index, self.counters.busy_s - busy)
        ended = self._local
        has_more = not self._is_asleep and self._next_turn is not None
        may_stay = ended < self._slice_until and ended >= self.frozen_until
        if has_more and may_stay and not cpu.must_yield(self.index):
            self._has_core = True
        else:
            cpu.give_back(self.index, ended)

    def _run_turn(self) -> None:
        now = self._events.now
        self._next_turn = None
        self._is_in_turn = True
        if self._local < now:
            self._local = now
        self.counters.turns += 1
        cpu = self._cpu
        if cpu.gc_per_mb:
            self._factor = 1.0 + cpu.gc_per_mb * self._memory() / 1e6
        if self._is_asleep:
            self.charge_wake()
        self.charge(cpu.turn_s)
        self.turn.run()
        if self.counters.receive_drops:
            self.session.handle_drops(self.counters.receive_drops)
        self._note_alarms()
        self._is_in_turn = False
        if not self.is_dead:
            self._plan_next()
            self._is_asleep = self._has_nothing_to_do()

    def _has_nothing_to_do(self) -> bool:
        """Whether the next turn has to wait for something else than the processor."""
        due = self._next_turn
        return due is None or due > self._local + TURN_SPACING_S

    def _note_alarms(self) -> None:
        counters, scheduler = self.counters, self.turn.scheduler
        if scheduler.alarms != counters.alarms:
            counters.alarms = scheduler.alarms
            delay_s = scheduler.alarm_delay_s - counters.alarm_delay_s
            counters.alarm_delay_s = scheduler.alarm_delay_s
            if delay_s > counters.alarm_delay_s_max:
                counters.alarm_delay_s_max = delay_s

    # The turn's I/O, next to the clock and the stream to the GMS

    def receive_unicast(self, count: int) -> list[Arrival]:
        return self._drain(self._unicast, count) if self._unicast.queue else []

    def receive_multicast(self, count: int) -> list[Arrival]:
        return self._drain(self._multicast, count) if self._multicast.queue else []

    def _drain(self, buffer: KernelBuffer, count: int) -> list[Arrival]:
        queue = buffer.queue
        cpu = self._cpu
        factor = self._factor
        arrived: list[Arrival] = []
        begun = local = self._local
        while queue and len(arrived) < count and queue[0][0] <= local:
            _, packet, source = queue.popleft()
            size = len(packet)
            buffer.bytes -= size
            cost = cpu.receive_packet_s + size * cpu.receive_byte_s
            if size > 1 and packet[1] not in _DATA_KINDS:
                cost += cpu.token_s
            local += cost * factor
            arrived.append((packet, 0, source))
        if self._cold_left_s:
            local += self._warm_up(local - begun)
        self._local = local
        self.counters.busy_s += local - begun
        self.counters.received += len(arrived)
        return arrived

    def send(self, destination: Address, packets: list[bytes]) -> int:
        """Send while the card takes it."""
        cpu = self._cpu
        for number, packet in enumerate(packets):
            if self._send_queue_bytes() >= self.model.send_queue_bytes:
                return number
            cost = cpu.send_packet_s + len(packet) * cpu.send_byte_s
            if packet[1] not in _DATA_KINDS:
                cost += cpu.token_s
            self.charge(cost)
            self.counters.sent += 1
            self._network.transmit(self, destination, packet, self._departure(len(packet)))
        return len(packets)

    def next_writable(self, now: float) -> float:
        """A socket becomes writable when half its buffer is free."""
        excess = self._send_queue_bytes() - self.model.send_queue_bytes / 2
        return now + max(0.0, excess) / self._rate

    def move(self, address: Address) -> None:
        """The machine has another address; what is under way to the old one is lost."""
        self._network.detach(self)
        self._addresses = frozenset()
        self.address = address
        self._network.attach(self)

    def set_memberships(self, addresses: frozenset[str]) -> None:
        before, self._addresses = self._addresses, addresses
        self._network.set_memberships(self, before, addresses)

    def _send_queue_bytes(self) -> float:
        waiting = self._sends_free_at - self._local
        return waiting * self._rate if waiting > 0.0 else 0.0

    def _departure(self, size: int) -> float:
        """Return when a datagram has left the card."""
        if not self._rate:
            return self._local
        self._sends_free_at = max(self._sends_free_at, self._local) + size / self._rate
        return self._sends_free_at

    def _plan_next(self) -> None:
        now = self.clock()
        soon = self._events.now + TURN_SPACING_S
        if soon < self._local:
            soon = self._local
        when = self.turn.next_wake(now)
        if when is not None and when <= now:
            self._wake(soon)
            return
        queue = self._unicast.queue
        if queue:
            self._wake(max(soon, queue[0][0]))
        queue = self._multicast.queue
        if queue and not self.session.is_receiving_paused():
            self._wake(max(soon, queue[0][0]))
        if when is not None:
            self._set_alarm(max(soon, self.world_time(when) + 1e-9))
