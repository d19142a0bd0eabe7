"""Connections between simulated agents: ordered streams that delay, stall, break and lie dead.

A link is a TCP connection: in each direction frames arrive in order or not at all, so a lost frame
is a broken link.  Directions have delays and rates of their own, may be held back (and then catch
up) or cut dead without anybody noticing.  The listener's end opens first, the dialler's one delay
later, so hellos cross as they really do.  Decides nothing about what happens when; the world does.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Protocol

from replicator.simulation.plan import Plan
from replicator.simulation.process import Process

WINDOW_BYTES = 64 * 1024
"""Bytes under way in one direction before the writer has to wait."""
DIAL_TIMEOUT_SECONDS = 5.0
REDIAL_SECONDS = 1.0


class Timer(Protocol):
    """Where the network has things done later."""

    now: float

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Do ``action`` in ``seconds``."""
        ...


class Pipe:
    """One direction of a link, towards ``process``."""

    __slots__ = (
        "bytes",
        "dead",
        "dice",
        "free_at",
        "link",
        "missed",
        "number",
        "process",
        "queue",
        "route",
    )

    def __init__(self, link: Link, process: Process, sender: str, dice: random.Random) -> None:
        """Frames from cluster ``sender`` to ``process``, whose session is not open yet."""
        self.link = link
        self.process = process
        self.number: int | None = None
        """Session of the receiver; None before its end is open and after it is closed."""
        self.route = (sender, process.cluster)
        self.dice = dice
        self.queue: deque[tuple[float, bytes | None]] = deque()
        """What is under way, with its time of arrival; None is the end of the stream."""
        self.bytes = 0
        self.free_at = 0.0
        self.missed = 0
        """How much of the queue should have arrived, and is held back."""
        self.dead = False
        """Whatever is sent vanishes, and nobody is told."""


class Link:
    """One connection."""

    __slots__ = ("dialler", "listener", "opened_at", "task")

    def __init__(
        self, dialler: Process, listener: Process, dice: random.Random, now: float
    ) -> None:
        """Dialled just now."""
        self.dialler = Pipe(self, dialler, listener.cluster, dice)
        self.listener = Pipe(self, listener, dialler.cluster, dice)
        self.opened_at = now
        self.task = False
        """The dialling task of the dialler is busy with it."""

    def across(self, pipe: Pipe) -> Pipe:
        """The other direction."""
        return self.listener if pipe is self.dialler else self.dialler


class Network:
    """All links, and what the routes between clusters are like at present."""

    def __init__(self, plan: Plan, timer: Timer) -> None:
        """Nothing connected."""
        self._plan = plan
        self._timer = timer
        self._delays: dict[tuple[str, str], float] = {}
        self._links: dict[tuple[str, str], int] = {}
        """How many links there ever were from one process to another."""
        self._blocked: dict[tuple[str, str], int] = {}
        self._rates: dict[tuple[str, str], list[int]] = {}
        self._pipes: dict[tuple[str, int], Pipe] = {}
        """Where the frames for a session (process name, number) come out."""
        self.frames = 0
        self.bytes = 0

    # ---- routes --------------------------------------------------------------------------------

    def delay(self, sender: str, receiver: str) -> float:
        """The one-way delay of a route, seconds; the way back is another."""
        route = (sender, receiver)
        known = self._delays.get(route)
        if known is None:
            dice = random.Random(f"{self._plan.seed}/route/{sender}/{receiver}")  # noqa: S311
            known = self._delays[route] = dice.uniform(0.0005, self._plan.delay)
        return known

    def block(self, route: tuple[str, str], *, dead: bool) -> None:
        """Nothing gets through; with ``dead`` what is under way is lost and links stay useless."""
        self._blocked[route] = self._blocked.get(route, 0) + 1
        if dead:
            for pipe in self._pipes.values():
                pipe.dead = pipe.dead or pipe.route == route

    def unblock(self, route: tuple[str, str]) -> list[Pipe]:
        """One reason less to be blocked; returns the pipes that go on where they stood."""
        left = self._blocked[route] = self._blocked[route] - 1
        return [] if left else [p for p in self._pipes.values() if p.route == route and p.missed]

    def blocked(self, route: tuple[str, str]) -> bool:
        """Whether nothing gets through at present."""
        return self._blocked.get(route, 0) > 0

    def limit(self, route: tuple[str, str], rate: int) -> None:
        """So many bytes a second at most, until :meth:`unlimit`."""
        self._rates.setdefault(route, []).append(rate)

    def unlimit(self, route: tuple[str, str], rate: int) -> list[Pipe]:
        """One limit less; returns the pipes whose frames now come sooner: one delay from now."""
        self._rates[route].remove(rate)
        hastened = [p for p in self._pipes.values() if p.route == route and p.free_at > self._now]
        arrival = self._now + self.delay(*route)
        for pipe in hastened:
            pipe.free_at = self._now
            pipe.queue = deque((min(at, arrival), frame) for at, frame in pipe.queue)
        return hastened

    @property
    def _now(self) -> float:
        return self._timer.now

    # ---- links ---------------------------------------------------------------------------------

    def link(self, dialler: Process, listener: Process) -> Link:
        """A connection that is being set up."""
        pair = (dialler.name, listener.name)
        number = self._links[pair] = self._links.get(pair, 0) + 1
        seed = f"{self._plan.seed}/link/{pair[0]}/{pair[1]}/{number}"
        jitter = self._plan.jitter
        dice = random.Random(seed if jitter else 0)  # noqa: S311 - a simulation
        return Link(dialler, listener, dice, self._timer.now)

    def opened(self, pipe: Pipe, number: int) -> None:
        """The receiver of ``pipe`` has opened session ``number``."""
        pipe.number = number
        self._pipes[pipe.process.name, number] = pipe

    def closed(self, pipe: Pipe) -> None:
        """The receiver of ``pipe`` has closed its session."""
        if pipe.number is not None:
            del self._pipes[pipe.process.name, pipe.number]
            pipe.number = None
        pipe.queue.clear()
        pipe.bytes = pipe.missed = 0
        pipe.dead = True

    def pipe_of(self, process: Process, number: int) -> Pipe | None:
        """The pipe into a session."""
        return self._pipes.get((process.name, number))

    def pipes(self, process: Process | None = None) -> list[Pipe]:
        """The pipes into all open sessions (of ``process``)."""
        found = self._pipes.values()
        return [pipe for pipe in found if process is None or pipe.process is process]

    def between(self, one: str, other: str) -> list[Link]:
        """The links between two clusters that are open at one end at least."""
        pair = ({one, other}, {other, one})
        found = {id(p.link): p.link for p in self._pipes.values() if {*p.route} in pair}
        return list(found.values())

    def post(self, pipe: Pipe, frame: bytes | None) -> float | None:
        """Put a frame (None: the end) on its way; seconds until it arrives, None if it is lost."""
        if pipe.dead:
            return None
        now, size = self._timer.now, 0 if frame is None else len(frame)
        self.frames += 1
        self.bytes += size
        begin = max(now, pipe.free_at)
        rates = self._rates.get(pipe.route)
        if rates:
            begin += size / min(rates)
            pipe.free_at = begin
        arrival = begin + self.delay(*pipe.route)
        if self._plan.jitter:
            arrival += self._plan.jitter * pipe.dice.random()
        if pipe.queue:
            arrival = max(arrival, pipe.queue[-1][0])
        pipe.queue.append((arrival, frame))
        pipe.bytes += size
        return arrival - now

    def take(self, pipe: Pipe) -> bytes | None:
        """The frame that arrives (None: the end of the stream)."""
        _, frame = pipe.queue.popleft()
        pipe.bytes -= 0 if frame is None else len(frame)
        return frame
