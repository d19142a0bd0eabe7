"""The event heap: agents, network, faults in virtual time; nothing waits, nothing is random here.

One event touches one process, or both ends of a link; when it is over, what was woken is sent and
the monitor looks at the processes it touched.  Everything drawn comes from streams that belong to
one region, process, route or link, so that a step left out moves no other.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from hashlib import blake2b
from itertools import count

from replicator.codec import decode
from replicator.effects import Effect
from replicator.simulation.disk import Disk
from replicator.simulation.frames import newer_frames
from replicator.simulation.monitor import Monitor, Violation
from replicator.simulation.network import (
    DIAL_TIMEOUT_SECONDS,
    REDIAL_SECONDS,
    WINDOW_BYTES,
    Link,
    Network,
    Pipe,
)
from replicator.simulation.plan import Plan
from replicator.simulation.process import Process
from replicator.simulation.site import Site
from replicator.simulation.versions import Release

_SYNC_SECONDS = _REVIEW_SECONDS = 2.0
_TWIN_SKEW_NS = 1_234_567
"""The machine of a second agent has a clock of its own."""
_TRACED_CHARACTERS = 300
_SAME_TIME = 1e-6
_REFUSALS, _REFUSED_SECONDS = 6, 60.0
"""After so many refusals, at the latest after so long, a peer is dialled again."""
_STORM, _STORM_PER_PAIR = 5_000, 500
"""Frames in one virtual second that no work explains."""
Trace = Callable[[str], None]


class World:
    """Everything there is, and the time."""

    def __init__(self, plan: Plan, trace: Trace | None = None) -> None:
        """All agents of ``plan`` start within its first tick; ``trace`` is told every event."""
        self.plan = plan
        self.now = 0.0
        self.monitor = Monitor()
        self.network = Network(plan, self)
        self.sites = {name: Site(name, plan) for name in plan.regions}
        self.disks = {name: Disk() for name in plan.regions}
        self.processes: dict[str, Process] = {}
        """The agent of each cluster that runs."""
        self.twins: dict[str, Process] = {}
        """Second agents, by cluster."""
        self.calm = False
        """Nothing goes wrong any more."""
        self.events = 0
        self.commits = self.entries = 0
        """Of processes that ended; entries are those that commits brought."""
        self.starts = 0
        self.trace = trace
        pairs = len(plan.regions) * (len(plan.regions) - 1) // 2
        self._storm = _STORM + _STORM_PER_PAIR * pairs
        self._second = 0.0
        self._sent = 0
        """Frames sent when the second began."""
        self._lasting: dict[int, Callable[[], None]] = {}
        self._lives = dict.fromkeys(plan.regions, 0)
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        for number, name in enumerate(plan.regions):
            self.at(plan.tick * number / len(plan.regions), lambda name=name: self.start(name))  # type: ignore[misc]
            if plan.churn > 0:
                self._churn_later(name)

    # ---- time ----------------------------------------------------------------------------------

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Do ``action`` in ``seconds``."""
        heapq.heappush(self._heap, (self.now + seconds, next(self._order), action))

    def run(self, until: float) -> None:
        """Let time pass up to ``until`` (virtual seconds)."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, action = heapq.heappop(heap)
            self.events += 1
            if self.now >= self._second + 1:
                self._second, self._sent = self.now, self.network.frames
            elif self.network.frames - self._sent > self._storm:
                raise Violation("42", f"a storm of messages: {self._storm} within a second")
            action()
        self.now = until

    def lasting(self, seconds: float, undo: Callable[[], None]) -> None:
        """Have ``undo`` done once: in ``seconds``, or when everything is mended."""
        key = next(self._order)
        self._lasting[key] = undo
        self.at(seconds, lambda: self._undo(key))

    def _undo(self, key: int) -> None:
        undo = self._lasting.pop(key, None)
        if undo is not None:
            undo()

    def mend(self) -> None:
        """Nothing goes wrong or changes any more, and what was wrong is put right."""
        self.calm = True
        self.say("mend")
        for key in sorted(self._lasting):
            self._undo(key)
        for site in self.sites.values():
            site.set_right(self.now)

    def say(self, *words: object) -> None:
        """One line of the trace."""
        if self.trace is not None:
            self.trace(f"{self.now:.6f} " + " ".join(map(str, words)))

    # ---- processes -----------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Start the agent of a cluster on its disk, unless it runs."""
        if name not in self.processes:
            self.processes[name] = self._begin(name, self.disks[name])

    def start_twin(self, name: str) -> None:
        """Start a second agent of a cluster on a copy of its disk."""
        if name not in self.twins and not self.calm:
            self.monitor.forked.add(name)
            self.twins[name] = self._begin(name, self.disks[name].copied(), _TWIN_SKEW_NS)

    def _begin(self, name: str, disk: Disk, skew_ns: int = 0) -> Process:
        self._lives[name] += 1
        self.starts += 1
        life = f"{name}.{self._lives[name]}"
        process = Process(self.sites[name], disk, life, self.plan, self.now, skew_ns)
        self.say("start", process.name, f"epoch={process.replica.own.epoch}")
        self.monitor.born(process)
        for peer in sorted(process.overlay.chosen):
            self._dial_later(process, peer, 0.001)
        self.at(_REVIEW_SECONDS, lambda: self._review_links(process))
        self.at(self.plan.tick, lambda: self._tick(process))
        self.at(_SYNC_SECONDS, lambda: self._sync(process))
        self.settle(process)
        return process

    def end(self, process: Process, *, silent: bool = False) -> None:
        """A process is gone; its peers see their links end, unless ``silent``."""
        self.say("end", process.name, "silent" if silent else "")
        process.alive = False
        for table in (self.processes, self.twins):
            if table.get(process.cluster) is process:
                del table[process.cluster]
        for pipe in self.network.pipes(process):
            across = pipe.link.across(pipe)
            if silent:
                across.dead = True
            else:
                self._later_gone(across)
            self.network.closed(pipe)
        self.commits += process.commits
        self.entries += process.entries
        self.monitor.died(process)

    def running(self) -> list[Process]:
        """All agents, twins included, in order."""
        return [*self.processes.values(), *self.twins.values()]

    # ---- what happens to one process -----------------------------------------------------------

    def act(self, process: Process, effects: list[Effect]) -> None:
        """Carry out what the core of a process wants done."""
        process.perform(effects)
        self.settle(process)

    def settle(self, process: Process) -> None:
        """Look at a process that was touched, then send what it has to say."""
        self.monitor.look(process)
        while process.woken or process.closing:
            woken, closing = [*process.woken, *process.closing], process.closing
            process.woken, process.closing = {}, []
            for number in woken:
                pipe = self.network.pipe_of(process, number)
                if pipe is not None:
                    self._write(process, number, pipe)
            for number in closing:
                pipe = self.network.pipe_of(process, number)
                if pipe is not None:
                    self._hang_up(process, pipe)
        if process.wants_to_publish:
            process.publishing = True
            self.at(max(0.0, process.free_at - self.now), lambda: self._seal(process))

    def _tick(self, process: Process) -> None:
        if process.alive:
            self.act(process, process.tick(self.now))
            self.at(self.plan.tick, lambda: self._tick(process))

    def _sync(self, process: Process) -> None:
        if process.alive:
            process.disk.sync()
            self.at(_SYNC_SECONDS, lambda: self._sync(process))

    def _seal(self, process: Process) -> None:
        if process.alive:
            batch = process.seal(self.now)
            self.say("seal", process.name, *batch.head.version, batch.head.root.hex()[:8])
            self.monitor.sealed(process, batch)
            self.at(process.fsync_seconds(), lambda: self._store(process))

    def _store(self, process: Process) -> None:
        if process.alive:
            self.store(process)
            self.at(0.0001, lambda: self._publish(process))

    def store(self, process: Process) -> None:
        """The batch sealed last is on disk."""
        process.store()
        assert process.stored is not None  # noqa: S101 - just stored
        self.monitor.stored(process, process.stored.head)

    def _publish(self, process: Process) -> None:
        if process.alive:
            self.act(process, process.publish(self.now))

    # ---- the cluster ---------------------------------------------------------------------------

    def agents_of(self, name: str) -> list[Process]:
        """The running agents of one cluster."""
        return [table[name] for table in (self.processes, self.twins) if name in table]

    def _churn_later(self, name: str) -> None:
        self.at(self.sites[name].rng.expovariate(self.plan.churn), lambda: self._churn(name))

    def _churn(self, name: str) -> None:
        if not self.calm:
            key = self.sites[name].churn()
            for process in self.agents_of(name):
                process.reconcile(key, self.now)
                self.settle(process)
            self._churn_later(name)

    # ---- links ---------------------------------------------------------------------------------

    def _review_links(self, process: Process) -> None:
        if process.alive:
            process.closing += process.review_links()
            self.settle(process)
            for peer in sorted(process.overlay.chosen):
                if not process.connected(peer):
                    self._dial_later(process, peer, 0.001)
            self.at(_REVIEW_SECONDS, lambda: self._review_links(process))

    def _dial_later(self, process: Process, peer: str, seconds: float) -> None:
        if peer in process.overlay.chosen and peer not in process.dialling:
            process.dialling.add(peer)
            self.at(seconds, lambda: self._dial(process, peer))

    def _dial_again(self, process: Process, peer: str) -> None:
        """After a failure: a second later, half to one and a half."""
        process.dialling.discard(peer)
        process.silent.add(peer)
        self._dial_later(process, peer, REDIAL_SECONDS * process.rng.uniform(0.5, 1.5))

    def _dial(self, process: Process, peer: str) -> None:
        if not process.alive:
            return
        if process.connected(peer):
            process.dialling.discard(peer)
        elif process.replica.members.forgotten(peer):
            self.at(REDIAL_SECONDS, lambda: self._dial(process, peer))
        else:
            self.dial(process, peer, task=True)

    def dial(self, process: Process, peer: str, *, task: bool = False) -> None:
        """Set up a link to ``peer``: it arrives there one delay later, the answer one more."""
        there = (process.cluster, peer)
        agents = self.agents_of(peer)
        if self.network.blocked(there) or not agents:
            wait = DIAL_TIMEOUT_SECONDS if agents else 2 * self.network.delay(*there)
            if task:
                self.at(wait, lambda: self._dial_again(process, peer))
            return
        link = self.network.link(process, agents[0])
        link.task = task
        self.at(self.network.delay(*there), lambda: self._accept(link))

    def _accept(self, link: Link) -> None:
        listener, dialler = link.listener.process, link.dialler.process
        back = (listener.cluster, dialler.cluster)
        if not listener.alive or self.network.blocked(back):
            if link.task:
                self.at(DIAL_TIMEOUT_SECONDS, lambda: self._dial_again(dialler, listener.cluster))
            return
        if listener.replica.members.forgotten(dialler.cluster):
            if link.task:
                self.at(self.network.delay(*back), lambda: self._refused(dialler, listener.cluster))
            return
        self.say("accept", listener.name, dialler.name)
        self.at(self.network.delay(*back), lambda: self._established(link))
        self._open(link.listener, dialled=False)

    def _refused(self, process: Process, peer: str) -> None:
        """The peer has forgotten us: it is dialled ever more seldom."""
        many = process.refusals[peer] = min(process.refusals.get(peer, 0) + 1, _REFUSALS)
        process.dialling.discard(peer)
        self._dial_later(process, peer, process.rng.uniform(1.0, min(_REFUSED_SECONDS, 2.0**many)))

    def _established(self, link: Link) -> None:
        dialler = link.dialler.process
        if not dialler.alive:
            self._later_gone(link.listener)
            return
        if self.network.blocked(link.dialler.route):
            self.at(DIAL_TIMEOUT_SECONDS, lambda: self._failed(link))
            return
        self.say("established", dialler.name, link.listener.process.name)
        self._open(link.dialler, dialled=True)
        missed, link.dialler.missed = link.dialler.missed, 0
        for _ in range(missed):
            self.arrive(link.dialler)

    def _failed(self, link: Link) -> None:
        """The route was cut before the dialler heard the answer."""
        self._later_gone(link.listener)
        if link.task:
            self._dial_again(link.dialler.process, link.listener.process.cluster)

    def _open(self, pipe: Pipe, *, dialled: bool) -> None:
        process, peer = pipe.process, pipe.route[0]
        now = process.site.monotonic(self.now)
        number, effects = process.replica.open_session(peer, dialled=dialled, now=now)
        self.network.opened(pipe, number)
        process.silent.discard(peer)
        process.refusals.pop(peer, None)
        self.act(process, effects)

    def _write(self, process: Process, number: int, pipe: Pipe) -> None:
        """Send from the session that ``pipe`` leads into, while the window is open."""
        across = pipe.link.across(pipe)
        while across.bytes < WINDOW_BYTES:
            frames = process.replica.pull(number)
            if not frames:
                return
            for frame in frames:
                self.monitor.sends(process, number, frame)
                self._post(process, across, frame)

    def _post(self, process: Process, across: Pipe, frame: bytes) -> None:
        if self.trace is not None:
            self.say("send", process.name, across.process.name, *_words(frame))
        for sent in newer_frames(frame) if process.release is Release.NEWER else (frame,):
            seconds = self.network.post(across, sent)
            if seconds is not None:
                self.at(seconds, lambda: self.arrive(across))

    def arrive(self, pipe: Pipe) -> None:
        """The oldest frame on its way through ``pipe`` should arrive now."""
        if pipe.dead:
            pipe.queue.clear()
        elif pipe.queue and pipe.queue[0][0] > self.now + _SAME_TIME:
            pass  # what was to arrive now came sooner: its link was slow and is no longer
        elif pipe.queue and (pipe.number is None or self.network.blocked(pipe.route)):
            pipe.missed += 1
        elif pipe.queue and pipe.number is not None:
            self._deliver(pipe, pipe.number)

    def _deliver(self, pipe: Pipe, number: int) -> None:
        waiting = pipe.bytes >= WINDOW_BYTES
        frame = self.network.take(pipe)
        if frame is None:
            self.gone(pipe)
            return
        process = pipe.process
        now, wall_ns = process.site.monotonic(self.now), process.wall_ns(self.now)
        self.monitor.hears(process, number, frame)
        self.act(process, process.replica.receive(number, frame, now, wall_ns))
        across = pipe.link.across(pipe)
        if waiting and across.number is not None:
            self._write(across.process, across.number, across)

    def _hang_up(self, process: Process, pipe: Pipe) -> None:
        """What waits has been sent: close our end; the other learns it after the last frame."""
        across = pipe.link.across(pipe)
        self._later_gone(across)
        self.say("close", process.name, across.process.name)
        self.gone(pipe)

    def _later_gone(self, pipe: Pipe) -> None:
        """The stream towards ``pipe`` ends after what is under way."""
        seconds = self.network.post(pipe, None)
        if seconds is not None:
            self.at(seconds, lambda: self.arrive(pipe))

    def gone(self, pipe: Pipe) -> None:
        """One end of a link learns that it is over, and dials anew in time."""
        process, link, number = pipe.process, pipe.link, pipe.number
        if number is None or not process.alive:
            return
        self.network.closed(pipe)
        self.say("gone", process.name, pipe.route[0], number)
        now = process.site.monotonic(self.now)
        self.act(process, process.replica.close_session(number, now))
        short = self.now - link.opened_at < REDIAL_SECONDS
        if link.task and pipe is link.dialler:
            process.dialling.discard(pipe.route[0])
        wait = REDIAL_SECONDS * process.rng.uniform(0.5, 1.5) if short else 0.001
        self._dial_later(process, pipe.route[0], wait)

    def hasten(self, pipes: list[Pipe]) -> None:
        """What these hold arrives one delay from now."""
        for pipe in pipes:
            for _ in pipe.queue:
                self.at(self.network.delay(*pipe.route), lambda pipe=pipe: self.arrive(pipe))  # type: ignore[misc]

    def resume(self, pipes: list[Pipe]) -> None:
        """Routes are open again: what was held back arrives one delay later."""
        for pipe in pipes:
            missed, pipe.missed = pipe.missed, 0
            for _ in range(missed):
                self.at(self.network.delay(*pipe.route), lambda pipe=pipe: self.arrive(pipe))  # type: ignore[misc]


def _words(frame: bytes) -> tuple[str, ...]:
    """What a trace tells of a frame: its kind, size and digest, and how it begins."""
    message = decode(frame)
    fields = [f"{key}={getattr(message, key)!r}" for key in type(message).__slots__]
    digest = blake2b(frame, digest_size=8).hexdigest()
    return (type(message).__name__, str(len(frame)), digest, " ".join(fields)[:_TRACED_CHARACTERS])
