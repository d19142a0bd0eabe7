"""One run of a plan: storm, mending, rest, verdict."""

from __future__ import annotations

import gc
import traceback
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations

from crdt import Origin, Version
from replicator.kinds import ADMIT
from replicator.simulation.faults import close_ranks, decide, perform
from replicator.simulation.monitor import Violation
from replicator.simulation.plan import Plan
from replicator.simulation.process import Process
from replicator.simulation.world import Trace, World

REST_SECONDS = 120.0
"""Within so many virtual seconds after the mending all digests must be equal."""
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Found:
    """What did not hold, and when."""

    rule: str
    """Number of the property, ``45`` for rest that was not reached, ``error`` for an exception."""
    detail: str
    at: float
    """Virtual seconds."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a run was; the same for the same plan, whatever the machine."""

    plan: Plan
    found: Found | None
    rested_after: float | None
    """Virtual seconds from the mending to rest."""
    simulated: float
    events: int
    checks: int
    frames: int
    bytes: int
    commits: int
    starts: int
    copies: float
    """Entries sent for each entry that a commit brought somewhere."""
    digest: str
    """Of all heads at the end, hex; empty when the replicas do not agree."""
    notices: dict[str, int] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """The report as a JSON document."""
        found = self.found
        return {
            "seed": self.plan.seed,
            "regions": list(self.plan.regions),
            "steps": len(self.plan.steps),
            "violation": None
            if found is None
            else {"rule": found.rule, "detail": found.detail, "at": round(found.at, 6)},
            "rested_after_seconds": self.rested_after,
            "simulated_seconds": round(self.simulated, 3),
            "events": self.events,
            "checks": self.checks,
            "frames": self.frames,
            "bytes": self.bytes,
            "commits": self.commits,
            "agent_starts": self.starts,
            "copies_per_receiver": self.copies,
            "digest": self.digest,
            "notices": dict(sorted(self.notices.items())),
        }


def rested(world: World) -> bool:
    """Whether every agent runs, serves, has nothing to publish or mend, and members show the same.

    Members of each other are two of which none forgot the other.  They must go by the same
    decisions, too.
    """
    processes = list(world.processes.values())
    if len(processes) < len(world.sites) or any(map(_busy, processes)):
        return False
    if any(_mends(process, world.processes) for process in processes):
        return False
    if not any(process.replica.members.all_forgotten() for process in processes):
        whole = all(len(p.replica.remotes) == len(world.sites) - 1 for p in processes)
        return whole and all(_agree(processes[0], process) for process in processes)
    held_up = {process.name: _held_up(process, world.processes) for process in processes}
    return all(
        _agree(one, other, held_up[one.name] | held_up[other.name])
        for one, other in combinations(processes, 2)
        if _members(one, other)
    )


def _busy(process: Process) -> bool:
    replica = process.replica
    waits = process.publishing or replica.own.dirty or replica.repairs.auditor.at_work
    return waits or not replica.announcements.relaying


def _mends(process: Process, processes: Mapping[str, Process]) -> bool:
    """Whether something waits to be mended by whoever did not forget this cluster."""
    return any(
        remote.rotten and not processes[origin.cluster].replica.members.forgotten(process.cluster)
        for origin, remote in process.replica.remotes.items()
    )


def _held_up(process: Process, processes: Mapping[str, Process]) -> set[Origin]:
    """Origins that are held back or have rotted here, and whose cluster has forgotten us.

    It put right long ago what is held back; we cannot hear of it.  Nor can we ask it for what has
    rotted, which we serve to nobody: who depends on us lacks it, too.
    """
    return {
        origin
        for origin, remote in process.replica.remotes.items()
        if (remote.held_back or remote.rotten)
        and processes[origin.cluster].replica.members.forgotten(process.cluster)
    }


def _members(one: Process, other: Process) -> bool:
    """Whether none of two has forgotten the other."""
    pair = (one, other), (other, one)
    return not any(a.replica.members.forgotten(b.cluster) for a, b in pair)


def _agree(one: Process, other: Process, held_up: Collection[Origin] = ()) -> bool:
    """Whether two show the same, each other included, and go by the same decisions.

    Except what is ``held_up``, and decisions that may be in it.
    """
    if held_up:
        shown = [_shown(process) for process in (one, other)]
        return all(shown[0].get(o) == shown[1].get(o) for o in {*shown[0], *shown[1]} - {*held_up})
    replicas = one.replica, other.replica
    return (
        {*replicas[0].remotes, Origin(one.cluster)} == {*replicas[1].remotes, Origin(other.cluster)}
        and replicas[0].announcements.digest() == replicas[1].announcements.digest()
        and replicas[0].members.table == replicas[1].members.table
        and replicas[0].steering.table == replicas[1].steering.table
    )


def _shown(process: Process) -> dict[Origin, tuple[Version, bytes]]:
    """Version and root of every origin, the own one included."""
    sets = {origin: remote.elements for origin, remote in process.replica.remotes.items()}
    sets[process.replica.own.origin] = process.replica.own.elements
    return {origin: (elements.version, elements.root()) for origin, elements in sets.items()}


def _wait(world: World) -> None:
    """Let time pass until all is at rest; then it must be the truth."""
    begun = world.now
    while not rested(world):
        if world.now - begun >= REST_SECONDS:
            who = {
                n: p.replica.announcements.digest().hex()[:8]
                for n, p in sorted(world.processes.items())
            }
            raise Violation("45", f"no rest within {REST_SECONDS:g} s: {who}")
        world.run(world.now + _LOOK_SECONDS)
    world.monitor.at_rest(world.processes)


def _rest(world: World) -> float:
    """Mend everything and wait; returns how long that took.

    Whom an agent has forgotten it then admits: all must be members of one another again.
    """
    world.mend()
    close_ranks(world)
    begun = world.now
    _wait(world)
    forgotten = [
        (process, cluster)
        for process in world.processes.values()
        for cluster in process.replica.members.all_forgotten()
        if cluster != process.cluster
    ]
    for process, cluster in forgotten:
        decide(world, process, ADMIT, cluster)
    if forgotten:
        _wait(world)
    return world.now - begun


@contextmanager
def _uncollected() -> Iterator[None]:
    """Look for no garbage meanwhile: a run makes little that is not freed by itself.

    Looking costs a tenth of a run.
    """
    looked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looked:
            gc.enable()


def run(plan: Plan, trace: Trace | None = None) -> Report:
    """Run ``plan`` to its end or its first violation; ``trace`` is told every event."""
    with _uncollected():
        return _run(plan, trace)


def _run(plan: Plan, trace: Trace | None) -> Report:
    world = World(plan, trace)
    for step in plan.steps:
        world.at(step.at, lambda step=step: perform(world, step))  # type: ignore[misc]
    found, rested_after = None, None
    try:
        world.run(plan.seconds)
        rested_after = round(_rest(world), 3)
    except Violation as violation:
        found = Found(violation.rule, violation.detail, world.now)
    except Exception as error:  # noqa: BLE001 - whatever the core raises is a finding
        found = Found("error", _where(error), world.now)
    world.say("found", found)
    return _report(world, found, rested_after)


def _where(error: Exception) -> str:
    """The error and the last places of the core it passed, in one line."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames]
    return f"{type(error).__name__}: {error} ({' > '.join(places)})"


def _report(world: World, found: Found | None, rested_after: float | None) -> Report:
    notices: Counter[str] = Counter()
    entries = world.entries + sum(process.entries for process in world.running())
    for process in world.running():
        notices.update(process.notices)
    digest = (
        "" if found else next(iter(world.processes.values())).replica.announcements.digest().hex()
    )
    return Report(
        plan=world.plan,
        found=found,
        rested_after=rested_after,
        simulated=world.now,
        events=world.events,
        checks=world.monitor.checks,
        frames=world.network.frames,
        bytes=world.network.bytes,
        commits=world.commits + sum(process.commits for process in world.running()),
        starts=world.starts,
        copies=round(world.monitor.entries_sent / entries, 3) if entries else 0.0,
        digest=digest,
        notices=dict(notices),
    )
