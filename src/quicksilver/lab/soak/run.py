"""A soak from start to end: processes, mishaps, and the report."""

from __future__ import annotations

import heapq
import os
import queue
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from quicksilver.lab.local_gms import LocalGms, Relays
from quicksilver.lab.processes import Child, Children, Inbox
from quicksilver.lab.soak.acts import (
    ACTS,
    ENDS_PROCESS,
    Act,
    ActName,
    draw_act,
    draw_memberships,
)
from quicksilver.lab.soak.judge import Judge
from quicksilver.lab.soak.places import READY_S, Place, make_groups
from quicksilver.lab.soak.records import (
    Begun,
    Ended,
    Explain,
    Explained,
    Heard,
    Joined,
    Left,
    Record,
    Round,
)
from quicksilver.lab.soak.report import (
    SoakReport,
    Vitals,
    check_vitals,
    find_children_left,
    growth_allowed,
    read_vitals,
    summarise_process,
)
from quicksilver.stdx.rand import Rng

SAMPLE_S = 1.0
SETTLE_S = 60.0
"""How long everybody may take to come together when nothing happens any more."""
CLOSE_S = 30.0
WAIT_S = 0.02
SHOWN_CHARACTERS = 80
"""Of a line that cannot be read: so much of its beginning and of its end is told."""
SPARED_MIN = 2
"""So many workers, at least, are left alone at any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakPlan:
    """Parameters of a soak."""

    seconds: float
    seed: int
    workers: int = 7
    groups: int = 1000
    every_s: float = 3.0
    """Mean time from one mishap to the next."""
    acts: tuple[ActName, ...] = ACTS
    folder: Path = Path("out/soak")
    """Where the GMS keeps its state, and the report goes."""
    growth_bytes_max: int | None = None
    """Memory that a process may gain in the second half of the soak; None: as its length says."""


class Soak:
    """One soak as it goes; single-threaded but for pipes and relays."""

    def __init__(self, plan: SoakPlan) -> None:
        self.plan = plan
        self.judge = Judge()
        self._rng = Rng(plan.seed)
        self._inbox: Inbox = queue.SimpleQueue()
        self._decode = msgspec.json.Decoder(Record).decode
        self._began = time.monotonic()
        self._tasks: list[tuple[float, int, Callable[[], None]]] = []
        self._task_count = 0
        self._acts: Counter[str] = Counter()
        self._happened: list[str] = []
        self._violations: list[str] = []
        self._places: list[Place] = []
        self._owners: dict[Child, tuple[Place, int]] = {}
        self._vitals: defaultdict[str, list[Vitals]] = defaultdict(list)
        """Of every process there was, by name and life."""
        self._ending: set[Child] = set()
        """Children that were killed or told to end."""
        self._delivered = 0
        self._exclusions = 0
        self._unprovoked = 0
        self._is_over = False
        """True when no more mishaps are to begin."""
        self._is_closing = False

    # From start to end

    def run(self) -> SoakReport:
        """Run it; raises ChildError if the processes cannot even be started."""
        plan = self.plan
        plan.folder.mkdir(parents=True, exist_ok=True)
        state = plan.folder / "gms.sqlite"
        for old in plan.folder.glob("gms.sqlite*"):
            old.unlink()
        with Children() as children:
            self._children = children
            self._gms = LocalGms(children, state)
            self._gms.start()
            with Relays(self._gms.address) as relays:
                self._start_workers(relays)
                self._began = self.judge.origin = time.monotonic()
                self._at(self._began, self._sample)
                if plan.acts:
                    self._at(self._began + plan.every_s, self._act)
                self._go_until(self._began + plan.seconds)
                self._conclude()
        left = find_children_left(os.getpid())
        if left:
            self._fail(f"processes are left: {left}")
        return self._report()

    def _start_workers(self, relays: Relays) -> None:
        memberships = draw_memberships(
            self._rng.derive("memberships"), self.plan.workers, self.plan.groups
        )
        for number, groups in enumerate(memberships):
            self._places.append(
                Place(number=number, groups=make_groups(groups), relay=relays.add())
            )
        for place in self._places:
            self._start(place)
        deadline = time.monotonic() + READY_S
        while not all(place.is_ready for place in self._places):
            if time.monotonic() > deadline:
                waiting = [place.number for place in self._places if not place.is_ready]
                self._fail(f"workers {waiting} were not ready within {READY_S:.0f} s")
                return
            self._take_line()

    def _start(self, place: Place) -> None:
        seed = self._rng.derive(f"worker {place.number}.{place.life + 1}").bits64()
        child = place.start(self._children, self._inbox, seed)
        self._owners[child] = (place, place.life)

    # The loop

    def _at(self, when: float, work: Callable[[], None]) -> None:
        self._task_count += 1
        heapq.heappush(self._tasks, (when, self._task_count, work))

    def _go_until(self, deadline: float, is_done: Callable[[], bool] | None = None) -> bool:
        while (now := time.monotonic()) < deadline:
            while self._tasks and self._tasks[0][0] <= now:
                heapq.heappop(self._tasks)[2]()
            if is_done is not None and is_done():
                return True
            self._take_line()
        return False

    def _take_line(self) -> None:
        try:
            child, line = self._inbox.get(timeout=WAIT_S)
        except queue.Empty:
            return
        while True:
            self._handle_line(child, line)
            try:
                child, line = self._inbox.get_nowait()
            except queue.Empty:
                return

    def _handle_line(self, child: Child, line: str | None) -> None:
        found = self._owners.get(child)
        if found is None:
            return
        place, number = found
        life = (place.number, number)
        if line is None:
            self._handle_end(place, number, child)
            return
        try:
            record = self._decode(line)
        except msgspec.MsgspecError:
            if child not in self._ending:  # a kill may tear a line
                self._fail(f"{child.name} said what cannot be read: {_ends_of(line)}")
            return
        match record:
            case Begun():
                place.is_ready = True
                place.calm(time.monotonic())
                self.judge.handle_begun(life, record)
            case Round():
                if record.is_last:
                    place.last = record
                self.judge.handle_round(life, record)
            case Heard():
                self._delivered += record.messages - place.messages
                place.messages = record.messages
                place.node = record.node
                self._note_exclusions(place, record)
                self.judge.handle_heard(life, record)
            case Left():
                self.judge.handle_left(life, record)
            case Joined():
                self.judge.handle_joined(life, record)
            case Explained():
                self._note(f"{child.name} has counted {record.counters}")
            case Ended():
                if record.threads:
                    self._fail(f"{child.name} left threads behind: {record.threads}")
                if record.descriptors:
                    self._fail(f"{child.name} left descriptors open: {record.descriptors}")

    def _note_exclusions(self, place: Place, record: Heard) -> None:
        more = record.exclusions - place.exclusions
        place.exclusions = record.exclusions
        self._exclusions += more
        for reason in record.excluded_for:
            self._note(f"{place.name} was {reason}")
        if more > 0 and not place.is_harmed and record.at - place.harmed_at > 10.0:
            self._unprovoked += more
            self._note(f"{place.name} was excluded, nothing had happened")

    def _handle_end(self, place: Place, number: int, child: Child) -> None:
        """A worker's output has ended: it was killed, told to end, or died."""
        del self._owners[child]
        code = self._children.release(child)
        self.judge.handle_gone((place.number, number), time.monotonic())
        if place.child is child:
            place.child = None
        is_expected = child in self._ending
        self._ending.discard(child)
        if not is_expected or code not in (0, -signal.SIGKILL):
            words = f": {child.last_words}" if child.last_words else ""
            self._fail(f"{child.name} ended with code {code}{words}")
        if not is_expected and place.child is None and not self._is_closing:
            self._start(place)

    # Mishaps

    def _act(self) -> None:
        spread = 0.5 + self._rng.uniform()
        self._at(time.monotonic() + spread * self.plan.every_s, self._act)
        whole = [place.number for place in self._places if not place.is_harmed]
        if len(whole) <= SPARED_MIN or self._is_over:
            return
        act = draw_act(
            self._rng,
            self.plan.acts,
            whole,
            frozenset({0, 1}),
            is_gms_whole=self._gms.child is not None,
        )
        if act is None:
            return
        self._acts[act.name] += 1
        who = "GMS" if act.place is None else self._places[act.place].name
        self._note(f"{act.name} {who} for {act.for_s:.1f} s")
        self._perform(act)

    def _perform(self, act: Act) -> None:
        ends_at = time.monotonic() + act.for_s
        if act.place is None:
            self._gms.kill()
            self._at(ends_at, self._gms.start)
            return
        place = self._places[act.place]
        if act.name in ENDS_PROCESS:
            assert place.child is not None
            self._ending.add(place.child)
            self._at(ends_at, lambda: self._replace(place))
        else:
            self._at(ends_at, lambda: place.end(act.name, time.monotonic()))
        place.begin(act.name, self._rng)

    def _replace(self, place: Place) -> None:
        if place.child is None:
            self._start(place)
        else:
            # It is still closing its node, or nobody has noticed its end.
            self._at(time.monotonic() + 0.1, lambda: self._replace(place))

    # Looking

    def _sample(self) -> None:
        now = time.monotonic()
        self._at(now + SAMPLE_S, self._sample)
        self.judge.handle_time(now)
        gms = self._gms.child
        if gms is not None and gms.exit_code is not None:
            self._fail(f"the GMS ended with code {gms.exit_code}: {gms.last_words}")
            self._gms.kill()
            self._gms.start()
        running = [(f"worker-{p.number}.{p.life}", p.child) for p in self._places]
        for name, child in [(f"gms.{self._gms.lives - 1}", self._gms.child), *running]:
            if child is not None:
                vitals = read_vitals(child.pid, round(now - self._began, 2))
                if vitals is not None:
                    self._vitals[name].append(vitals)

    def _note(self, what: str) -> None:
        self._happened.append(f"{time.monotonic() - self._began:8.2f} s  {what}")

    def _fail(self, what: str) -> None:
        self._note(f"VIOLATION: {what}")
        self._violations.append(what)

    # The end

    def _conclude(self) -> None:
        """Let every mishap end, have everybody speak to everybody once more, and close."""
        self._is_over = True
        if not self._go_until(time.monotonic() + SETTLE_S, self._is_whole):
            harmed = [place.number for place in self._places if place.is_harmed]
            self._fail(f"workers {harmed} did not recover within {SETTLE_S:.0f} s")
        for place in self._places:
            place.conclude()
        if not self._go_until(time.monotonic() + SETTLE_S, self._has_concluded):
            for place in self._places:
                if problem := place.problem(self._places):
                    self._fail(f"{place.name}, {SETTLE_S:.0f} s after the last mishap: {problem}")
                if place.child is not None:
                    place.child.tell(Explain())
        self._go_until(time.monotonic() + SETTLE_S, lambda: not self.judge.open_debts())
        self.judge.conclude()
        self._is_closing = True
        for child in list(self._owners):
            self._ending.add(child)
            child.close_input()
        if not self._go_until(time.monotonic() + CLOSE_S, lambda: not self._owners):
            names = [child.name for child in self._owners]
            self._fail(f"{names} did not end within {CLOSE_S:.0f} s")

    def _has_concluded(self) -> bool:
        """Everybody has spoken to everybody; who has not, speaks again.

        A worker may learn only now that it had been counted out, or that others have come back.
        """
        problems = {place: place.problem(self._places) for place in self._places}
        for place, problem in problems.items():
            if problem and place.last is not None:
                place.conclude(problem)
        return not any(problems.values())

    def _is_whole(self) -> bool:
        return self._gms.child is not None and not any(place.is_harmed for place in self._places)

    def _report(self) -> SoakReport:
        plan, judge = self.plan, self.judge
        # Of processes that were there for a half of it at least; the others say little.
        long = {
            name: samples
            for name, samples in sorted(self._vitals.items())
            if name[:3] != "gms" and samples[-1].at - samples[0].at >= plan.seconds / 2
        }
        # The GMS is killed too often for that: all its lives are looked at as one.
        long["gms"] = [
            one for name, samples in self._vitals.items() if name[:3] == "gms" for one in samples
        ]
        growth_max = plan.growth_bytes_max
        if growth_max is None:
            growth_max = growth_allowed(plan.seconds)
        for name, samples in long.items():
            for problem in check_vitals(samples, growth_max):
                self._fail(f"{name}: {problem}")
        return SoakReport(
            seed=plan.seed,
            seconds=plan.seconds,
            acts=dict(sorted(self._acts.items())),
            lives=len(self._vitals),
            confirmed_messages=judge.confirmed,
            unconfirmed_messages=judge.unconfirmed,
            delivered_messages=self._delivered,
            debts=dict(sorted(judge.settled.items())),
            flush_s_max=judge.flush_s_max,
            flush_problems=dict(judge.problems),
            exclusions=self._exclusions,
            unprovoked_exclusions=self._unprovoked,
            processes=[summarise_process(name, samples) for name, samples in long.items()],
            vitals=dict(self._vitals),
            happened=self._happened,
            violations=[*self._violations, *judge.violations],
        )


def _ends_of(line: str) -> str:
    if len(line) <= 2 * SHOWN_CHARACTERS:
        return repr(line)
    return f"{line[:SHOWN_CHARACTERS]!r} ... {line[-SHOWN_CHARACTERS:]!r}"
