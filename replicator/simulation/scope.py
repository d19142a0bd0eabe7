"""Small scopes: a few replicas and every order in which few things can happen to them.

A state is whole: the processes of the production core, what is under way on every link, the disks,
the monitor's books, and what may still happen.  :func:`actions` lists what can happen next and
:func:`perform` does it to a copy.  Frames ride on ordered links, so what interleaves is: deliveries
on different links, breaks (what is under way is lost) and new connections, changes (sealed and
published as two steps), one crash that loses any suffix of the unsynced commits, a floor move, and
time, in steps long enough for a beat.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import NamedTuple

from replicator.simulation.dice import names_of
from replicator.simulation.disk import Disk
from replicator.simulation.essence import essence
from replicator.simulation.monitor import Monitor, Truth, Violation
from replicator.simulation.plan import READY_BIT, Plan
from replicator.simulation.process import Process
from replicator.simulation.sharing import restored, saved
from replicator.simulation.site import Site

TICK_SECONDS = 1.1
"""One step of time: every beat is due after it."""
_PATIENT_BEATS = 120
_SCRIPT = (0b011, 0b110, 0b000, 0b001, 0b111, 0b010)
"""Endpoints of the one service after each change: comings, goings, all gone, one back."""
Pair = tuple[str, str]
Action = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """How much may happen."""

    name: str
    replicas: int
    line: bool = False
    """Only neighbours are linked: what lies between must relay."""
    changes: int = 2
    losses: int = 1
    crashes: int = 1
    floors: int = 1
    ticks: int = 1

    @property
    def links(self) -> tuple[Pair, ...]:
        """The pairs that may be linked."""
        names = names_of(self.replicas)
        return tuple(pairwise(names)) if self.line else tuple(combinations(names, 2))


@dataclass(slots=True)
class Cell:
    """One replica: its process with site and disk, and the monitor that watches it."""

    process: Process
    monitor: Monitor


class Facts(NamedTuple):
    """What decides which actions a replica offers."""

    may_publish: bool
    sealed: bool
    dirty: bool
    unsynced: int


@dataclass(slots=True)
class State:
    """Everything at one moment; replicas by number, until they are looked at."""

    cells: dict[str, int]
    loaded: dict[str, Cell] = field(default_factory=dict)
    """Replicas that this state has a copy of, to be changed."""
    queues: dict[Pair, tuple[bytes, ...]] = field(default_factory=dict)
    """Frames under way, by (sender, receiver)."""
    numbers: dict[Pair, int] = field(default_factory=dict)
    """Session of the first with the second; absent while they are not linked."""
    now: float = 0.0
    changes: int = 0
    left: dict[str, int] = field(default_factory=dict)
    """How many losses, crashes, floor moves and beats may still come."""

    def copy(self) -> State:
        """The same, to be changed; only of a state at rest in the table of replicas."""
        return State(
            dict(self.cells),
            {},
            dict(self.queues),
            dict(self.numbers),
            self.now,
            self.changes,
            dict(self.left),
        )

    def key(self) -> Hashable:
        """What tells states apart."""
        return (
            tuple(self.cells.values()),
            tuple(sorted(self.queues.items())),
            tuple(sorted(self.numbers.items())),
            tuple(self.left.values()),
            (self.now, self.changes),
        )


class Explorer:
    """Makes the first state of a scope, and the next ones."""

    def __init__(self, scope: Scope) -> None:
        """Prepare ``scope``."""
        self.scope = scope
        self.names = names_of(scope.replicas)
        self._plan = Plan(seed=0, regions=self.names, seconds=0.0, chunk=1, tick=TICK_SECONDS)
        self._numbers: dict[tuple[str, int], int] = {}
        self._cells: list[tuple[bytes, Facts]] = []
        """Every replica ever met, as bytes, each once."""

    def cell(self, state: State, name: str) -> Cell:
        """The replica ``name`` of ``state``, to be changed."""
        found = state.loaded.get(name)
        if found is None:
            found = state.loaded[name] = restored(self._cells[state.cells[name]][0])
        return found

    def process(self, state: State, name: str) -> Process:
        """The process of a replica."""
        return self.cell(state, name).process

    def put_away(self, state: State) -> None:
        """Every replica that was changed becomes a number again."""
        for name, cell in state.loaded.items():
            cell.process.forget_encodings()
            key = (name, essence(cell))
            number = self._numbers.get(key)
            if number is None:
                process = cell.process
                facts = Facts(
                    process.may_publish,
                    process.sealed is not None,
                    process.replica.own.dirty,
                    len(process.disk.unsynced),
                )
                number = self._numbers[key] = len(self._cells)
                self._cells.append((saved(cell), facts))
            state.cells[name] = number
        state.loaded.clear()

    # ---- the first state -----------------------------------------------------------------------

    def first(self) -> State:
        """Everybody linked, with a first head each, at rest."""
        state, truth = State(dict.fromkeys(self.names, -1)), Truth()
        for name in self.names:
            site = Site(name, self._plan)
            process = Process(site, Disk(), f"{name}.1", self._plan, 0.0)
            state.loaded[name] = Cell(process, Monitor(truth))
            state.loaded[name].monitor.born(process)
        for pair in self.scope.links:
            self._connect(state, pair)
        self._rest(state)
        for name in self.names:
            self.process(state, name).disk.sync()
        scope = self.scope
        state.left = {
            "loss": scope.losses,
            "crash": scope.crashes,
            "floor": scope.floors,
            "tick": scope.ticks,
        }
        self.put_away(state)
        return state

    # ---- what can happen -----------------------------------------------------------------------

    def actions(self, state: State) -> list[Action]:
        """Everything that can happen next."""
        found: list[Action] = [("deliver", *pair) for pair, queue in state.queues.items() if queue]
        for pair in self.scope.links:
            if pair not in state.numbers:
                found.append(("connect", *pair))
            elif state.left["loss"]:
                found.append(("break", *pair))
        owner = self.names[0]
        facts = {name: self._cells[number][1] for name, number in state.cells.items()}
        if facts[owner].sealed:
            found.append(("publish", owner))
        elif facts[owner].may_publish:
            if state.changes < self.scope.changes:
                found.append(("change", owner))
            if state.left["floor"]:
                found.append(("floor", owner))
            if facts[owner].dirty:
                found.append(("seal", owner))
        if state.left["crash"]:
            found += [
                ("crash", name, str(kept))
                for name in self.names
                for kept in range(facts[name].unsynced + 1)
            ]
        return [*found, ("tick",)] if state.left["tick"] else found

    def perform(self, before: State, action: Action) -> State:
        """The state after ``action``; raises :class:`Violation` when something does not hold."""
        state = before.copy()
        match action:
            case ("deliver", sender, receiver):
                self._deliver(state, (sender, receiver))
            case ("connect", one, other):
                self._connect(state, (one, other))
            case ("break", one, other):
                state.left["loss"] -= 1
                self._break(state, (one, other))
            case ("publish", name):
                self._publish(state, name)
            case ("crash", name, kept):
                state.left["crash"] -= 1
                self._crash(state, name, int(kept))
            case ("tick",):
                state.left["tick"] -= 1
                self._tick(state)
            case (kind, name):
                self._work(state, kind, name)
        self.put_away(state)
        return state

    def _work(self, state: State, kind: str, name: str) -> None:
        process = self.process(state, name)
        if kind == "change":
            key = process.site.set("cart", READY_BIT | _SCRIPT[state.changes])
            process.reconcile(key, state.now)
            state.changes += 1
        elif kind == "floor":
            state.left["floor"] -= 1
            own = process.replica.own
            assert own.head is not None  # noqa: S101 - the first state has one
            own.move_floor(own.head.stamp, process.wall_ns(state.now))
        if process.replica.own.dirty:
            self._seal(state, name)

    # ---- doing it ------------------------------------------------------------------------------

    def _seal(self, state: State, name: str) -> None:
        cell = self.cell(state, name)
        cell.process.publishing = True
        cell.monitor.sealed(cell.process, cell.process.seal(state.now))
        cell.monitor.look(cell.process)

    def _publish(self, state: State, name: str) -> None:
        cell = self.cell(state, name)
        cell.process.store()
        assert cell.process.stored is not None  # noqa: S101 - just stored
        cell.monitor.stored(cell.process, cell.process.stored.head)
        cell.process.perform(cell.process.publish(state.now))
        self._settle(state, name)

    def _settle(self, state: State, name: str) -> None:
        cell = self.cell(state, name)
        process = cell.process
        cell.monitor.look(process)
        closing, process.closing, process.woken = process.closing, [], {}
        for pair, number in list(state.numbers.items()):
            if pair[0] == name and number in closing:
                self._break(state, pair)
        for pair in list(state.numbers):
            if pair[0] == name:
                self._write(state, pair)

    def _write(self, state: State, pair: Pair) -> None:
        """One pull at a time: the next only when what was sent before has arrived."""
        if state.queues[pair]:
            return
        cell, number = self.cell(state, pair[0]), state.numbers[pair]
        frames = cell.process.replica.pull(number)
        for frame in frames:
            cell.monitor.sends(cell.process, number, frame)
        state.queues[pair] = tuple(frames)

    def _connect(self, state: State, pair: Pair) -> None:
        for one, other in (pair, pair[::-1]):
            process = self.process(state, one)
            now = process.site.monotonic(state.now)
            number, effects = process.replica.open_session(other, dialled=pair[0] == one, now=now)
            state.numbers[one, other] = number
            state.queues[one, other] = ()
            process.perform(effects)
        for name in pair:
            self._settle(state, name)

    def _break(self, state: State, pair: Pair) -> None:
        for one, other in (pair, pair[::-1]):
            number = state.numbers.pop((one, other), None)
            state.queues.pop((one, other), None)
            if number is not None:
                self._closed(state, one, number)

    def _closed(self, state: State, name: str, number: int) -> None:
        process = self.process(state, name)
        now = process.site.monotonic(state.now)
        process.perform(process.replica.close_session(number, now))
        self._settle(state, name)

    def _deliver(self, state: State, pair: Pair) -> None:
        process = self.process(state, pair[1])
        frame, *rest = state.queues[pair]
        state.queues[pair] = tuple(rest)
        site, number = process.site, state.numbers[pair[::-1]]
        now, wall_ns = site.monotonic(state.now), process.wall_ns(state.now)
        process.perform(process.replica.receive(number, frame, now, wall_ns))
        self._settle(state, pair[1])
        if not rest and pair in state.numbers:
            self._write(state, pair)

    def _crash(self, state: State, name: str, kept: int) -> None:
        for pair in [pair for pair in state.numbers if pair[0] == name]:
            number = state.numbers.pop(pair[::-1])
            del state.numbers[pair], state.queues[pair], state.queues[pair[::-1]]
            self._closed(state, pair[1], number)
        cell = self.cell(state, name)
        former = cell.process
        former.disk.sync(kept)
        former.disk.unsynced.clear()
        cell.monitor.died(former)
        life = int(former.name.rpartition(".")[2]) + 1
        cell.process = Process(former.site, former.disk, f"{name}.{life}", self._plan, state.now)
        cell.monitor.born(cell.process)
        self._settle(state, name)

    def _tick(self, state: State) -> None:
        state.now += TICK_SECONDS
        for name in self.names:
            process = self.process(state, name)
            process.perform(process.tick(state.now))
            self._settle(state, name)

    # ---- rest ----------------------------------------------------------------------------------

    def _drain(self, state: State) -> None:
        while pairs := [pair for pair, queue in state.queues.items() if queue]:
            for pair in pairs:
                if state.queues.get(pair):
                    self._deliver(state, pair)

    def _agree(self, state: State) -> bool:
        processes = [self.process(state, name) for name in self.names]
        if any(process.replica.own.dirty for process in processes):
            return False
        return len({process.replica.announcements.digest() for process in processes}) == 1

    def _rest(self, state: State) -> None:
        for _ in range(_PATIENT_BEATS):
            for pair in self.scope.links:
                if pair not in state.numbers:
                    self._connect(state, pair)
            self._drain(state)
            for name in self.names:
                process = self.process(state, name)
                if process.sealed is None and process.wants_to_publish:
                    self._seal(state, name)
                if process.sealed is not None:
                    self._publish(state, name)
            self._drain(state)
            if self._agree(state):
                return
            self._tick(state)
        raise Violation("45", f"no rest within {_PATIENT_BEATS} beats")

    def rest(self, before: State) -> None:
        """Nothing more happens but time: all replicas must come to agree, on the truth."""
        state = before.copy()
        self._rest(state)
        processes = {name: self.process(state, name) for name in self.names}
        for cell in state.loaded.values():
            cell.monitor.at_rest(processes)
