"""Electors over one lease in virtual time: delays, losses, drift, crashes, pauses, false hints.

``t`` is true time; each agent has its own clock of its own speed.  A call reaches the lease, or
not, and its answer comes back, or not; what an agent no longer waits for may still happen.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random

from clusters.errors import LeaseConflictError
from clusters.lease import LeaseRecord
from clusters.lease_memory import MemoryLease
from replicator.election import Elector, Step, WriteLease

LOOK = 0.05
"""How often it is looked whether a paused agent still leads, seconds."""


@dataclass
class Weather:
    """How the calls fare; times in seconds, chances from 0 to 1."""

    delay: float = 0.05
    slow: float = 0.0
    """Chance that a way takes up to 6 s."""
    lost: float = 0.0
    """Chance that a way loses what is on it."""


@dataclass
class Belief:
    """An agent led under ``number`` from ``begin`` to ``end``."""

    me: str
    number: int
    begin: float
    end: float = math.inf


@dataclass(eq=False)
class Agent:
    """One process."""

    me: str
    elector: Elector
    rate: float
    offset: float
    alive: bool = True
    paused_until: float = 0.0
    cut_until: float = 0.0
    """It reaches the lease again from then on."""
    call: int = 0
    belief: Belief | None = None
    planned: float = math.inf

    def clock(self, t: float) -> float:
        return self.offset + t * self.rate

    def true(self, local: float) -> float:
        return (local - self.offset) / self.rate if math.isfinite(local) else local


@dataclass
class World:
    """All agents and their lease; :meth:`run` moves the time."""

    rng: Random
    drift: float = 0.01
    weather: Weather = field(default_factory=Weather)
    t: float = 0.0
    lease: MemoryLease = field(default_factory=MemoryLease)
    agents: list[Agent] = field(default_factory=list)
    beliefs: list[Belief] = field(default_factory=list)
    history: list[LeaseRecord] = field(default_factory=list)
    """Every record that the lease ever was."""
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    # ---- for the test --------------------------------------------------------------------------

    def add(self, me: str, *, met: int = 0, former: str = "") -> Agent:
        """Start an agent; ``met`` is the epoch it has kept from before."""
        rate = 1.0 + self.rng.uniform(-self.drift, self.drift)
        agent = Agent(me, Elector(me, former=former), rate, self.rng.uniform(0.0, 1e6))
        if met:
            agent.elector.exceed(met, agent.clock(self.t))
        self.agents.append(agent)
        self.wake(agent)
        return agent

    def at(self, t: float, do: Callable[[], None]) -> None:
        """Let something happen at ``t``."""
        heapq.heappush(self._events, (max(t, self.t), next(self._numbers), do))

    def run(self, until: float) -> None:
        """Let time pass."""
        while self._events and self._events[0][0] <= until:
            self.t, _, do = heapq.heappop(self._events)
            do()
            self._look()
        self.t = until
        self._look()

    def crash(self, agent: Agent, told: float) -> None:
        """End it without a word; its siblings lose their links ``told`` seconds later."""
        agent.alive = False
        self.at(self.t + told, lambda: self.lose(agent))

    def lose(self, agent: Agent) -> None:
        """Let all others lose their link to an agent, rightly or not."""
        for other in self.agents:
            if other is not agent and other.alive:
                other.elector.contact_lost(agent.me, other.clock(self.t))
                self.wake(other)

    def stop(self, agent: Agent) -> None:
        """End it cleanly; its links end after it gave the lease back."""
        agent.elector.stop(agent.clock(self.t))
        self.wake(agent)

    def leaders(self) -> list[Agent]:
        """Who believes now that it leads."""
        return [one for one in self.agents if one.belief is not None]

    def longest_overlap(self) -> float:
        """The longest time that two agents led at once."""
        most = 0.0
        for number, one in enumerate(self.beliefs):
            for other in self.beliefs[:number]:
                if one.me != other.me:
                    most = max(most, min(one.end, other.end, self.t) - max(one.begin, other.begin))
        return most

    # ---- the machine ---------------------------------------------------------------------------

    def wake(self, agent: Agent) -> None:
        """Let an agent do what is due, and see to it that it is woken in time."""
        if not agent.alive:
            return
        if self.t < agent.paused_until:
            # In steps, since whoever leads may cease to while it is paused.
            self.at(min(agent.paused_until, self.t + LOOK), lambda: self.wake(agent))
            return
        while (step := agent.elector.step(agent.clock(self.t))) is not None:
            self._send(agent, step)
        self._plan(agent)
        if agent.elector.finished:
            agent.alive = False
            self.lose(agent)

    def _plan(self, agent: Agent) -> None:
        """Wake an agent at its time; a hair later, as rounding must not make it spin."""
        at = agent.true(agent.elector.wake_at)
        if math.isfinite(at):
            self.at(max(at, self.t) + 1e-7, lambda: self._on_time(agent, at))

    def _on_time(self, agent: Agent, at: float) -> None:
        if agent.alive and agent.true(agent.elector.wake_at) == at:
            self.wake(agent)

    def _way(self, agent: Agent) -> float | None:
        """Seconds that one way takes; None when it leads nowhere."""
        if self.rng.random() < self.weather.lost or self.t < agent.cut_until:
            return None
        if self.rng.random() < self.weather.slow:
            return self.rng.uniform(0.0, 6.0)
        return self.rng.uniform(0.0, self.weather.delay)

    def _send(self, agent: Agent, step: Step) -> None:
        agent.call += 1
        call = agent.call
        if (way := self._way(agent)) is not None:
            self.at(self.t + way, lambda: self._arrive(agent, call, step))
        self.at(agent.true(step.until), lambda: self._answer(agent, call, agent.elector.failed))

    def _arrive(self, agent: Agent, call: int, step: Step) -> None:
        """Do what was asked, even if nobody waits for it any more."""
        answer = self._done(agent, step)
        if (way := self._way(agent)) is not None:
            self.at(self.t + way, lambda: self._answer(agent, call, answer))

    def _done(self, agent: Agent, step: Step) -> Callable[[float], None]:
        elector = agent.elector
        if not isinstance(step, WriteLease):
            found = self.lease.look()
            return lambda now: elector.was_read(found, now)
        try:
            record = self.lease.swap(step.claim, step.after)
        except LeaseConflictError:
            return elector.conflicted
        self.history.append(record)
        return lambda now: elector.wrote(record, now)

    def _answer(self, agent: Agent, call: int, tell: Callable[[float], None]) -> None:
        if not agent.alive or agent.call != call:
            return
        if self.t < agent.paused_until:
            self.at(agent.paused_until, lambda: self._answer(agent, call, tell))
            return
        agent.call += 1
        tell(agent.clock(self.t))
        self.wake(agent)

    def _look(self) -> None:
        """Note who leads since when; the dead do not."""
        for agent in self.agents:
            number = agent.elector.leads(agent.clock(self.t)) if agent.alive else None
            former = agent.belief
            if former is not None and former.number != number:
                former.end = min(self.t, former.end)
                agent.belief = None
            if number is not None and agent.belief is None:
                agent.belief = Belief(agent.me, number, self.t)
                self.beliefs.append(agent.belief)
