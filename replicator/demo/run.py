"""The story the demonstration tells: churn, one region cut off, its heal, rest, and the sum.

How long changes go on is fixed in the agents' configurations when they start, and counts from then;
how long they take to be ready is not known before.  So they are given some seconds more, and the
story is fitted into what is left of their changing once all are ready.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from clusters.base import Clock
from replicator.demo import summary
from replicator.demo.lag import Delay, Phases, by_pair, over_the_delay
from replicator.demo.regions import REGIONS, one_way_ms
from replicator.demo.show import RECENT_SECONDS, Screen, View
from replicator.demo.summary import Outcome, Reading
from replicator.demo.watching import Watchers
from replicator.demo.world import AGENT, AgentTrouble, Churn, World
from replicator.errors import NotGood

SERVICES, ENDPOINTS, CHANGES_PER_SECOND = 20, 10, 10.0
"""Of each region."""
_READY_SECONDS = 90.0
_ALLOWANCE_SECONDS = 5.0
"""What agents may take from their start until all are ready, without the story getting shorter."""
_LEAST_SECONDS = 5.0
_CALM = 0.85
"""The share of the whole time in which things change."""
_CUT, _HEAL = 0.4, 0.7
"""Shares of that, from when all are ready."""
_CATCH_UP_SECONDS = 30.0
_LOOK_SECONDS = 1.0
_LOOK_PIPE_SECONDS = 2.0
_LOOK_CLOSELY_SECONDS = 0.1
_NO_TIME = 0.001
"""Seconds not worth waiting for."""
_RECENT_NS = RECENT_SECONDS * 10**9
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for."""

    seconds: float
    regions: int
    seed: int
    wan: bool
    keep: bool

    def churn(self) -> Churn:
        """What each region does."""
        seconds = 0.0 if self.keep else self.seconds * _CALM + _ALLOWANCE_SECONDS
        return Churn(SERVICES, ENDPOINTS, CHANGES_PER_SECOND, self.seed, seconds)


def no_delay(_: str, __: str) -> float:
    """The delay of every pair on this machine alone."""
    return 0.0


def calm_at(reading: Reading, churn_seconds: float) -> float:
    """When the first of the agents stops changing things, in Unix seconds."""
    started = (status["agent"]["started_at"] for status in reading.values())
    first = min(datetime.fromisoformat(text) for text in started)
    return first.timestamp() + churn_seconds


class Demo:
    """One run."""

    def __init__(self, plan: Plan, clock: Clock, screen: Screen, world: World) -> None:
        """Nothing is started yet."""
        self._plan = plan
        self._clock = clock
        self._screen = screen
        self._world = world
        self._watchers = Watchers(world.clients)
        self._began = 0.0
        self._looked = 0.0
        self._cut: str | None = None

    async def run(self) -> None:
        """Tell the story; raises :class:`NotGood` unless all regions end up equal."""
        ready = await self._start()
        if self._plan.keep:
            await self._keep()
        else:
            self._sum_up(await self._story(ready))

    async def _start(self) -> Reading:
        plan, screen, world = self._plan, self._screen, self._world
        screen.say(f"starting {plan.regions} agents, each a process of its own ...")
        await world.start(datetime.now(UTC))
        deadline = self._clock.monotonic() + _READY_SECONDS
        ready = await world.wait_ready(deadline, screen.progress)
        self._watchers.start()
        self._began = self._clock.monotonic()
        links = "a WAN's delays" if plan.wan else "no delays"
        screen.say(f"all {plan.regions} agents are ready, linked by mutual TLS with {links};")
        screen.say(f"each region makes {CHANGES_PER_SECOND:g} changes a second")
        return ready

    async def _keep(self) -> None:
        for region in self._world.regions:
            self._screen.say(f"  replicator status --agent {self._world.address(region)}")
        self._screen.say("they run until Ctrl-C")
        await self._watch(float("inf"))

    async def _story(self, ready: Reading) -> Outcome:
        screen, world, wall_ns = self._screen, self._world, self._clock.wall_ns
        calm = calm_at(ready, self._plan.churn().seconds) - wall_ns() / 1e9
        if calm < _LEAST_SECONDS:
            message = "the agents took too long to be ready; nearly nothing is left of their time"
            raise NotGood(message, cure="give more --seconds, or leave this machine more to them")
        began = wall_ns()
        await self._watch(calm * _CUT)
        victim = self._cut = world.regions[-1]
        cut = wall_ns()
        world.relays.cut(victim)
        screen.say(f"--- {victim} is cut off; the others go on")
        await self._watch(calm * _HEAL)
        wanted = summary.own_versions(await world.everyone())
        heal = wall_ns()
        world.relays.heal(victim)
        self._cut = None
        screen.say(f"--- {victim} can be reached again")
        await self._until_reached(wanted)
        healed = wall_ns()
        screen.say(f"--- {(healed - heal) / 1e9:.1f} s later everything from before is everywhere")
        await self._watch(calm)
        screen.say("--- the changes stop; do all come to the same?")
        final = await self._rest()
        return Outcome(final, self._watchers.samples(), Phases(victim, began, cut, heal, healed))

    # ---- looking -------------------------------------------------------------------------------

    def _seconds(self) -> float:
        return self._clock.monotonic() - self._began

    async def _look(self) -> Reading:
        """Where everything stands; shown unless it was just shown."""
        reading = await self._world.everyone()
        self._watchers.check()
        now = self._clock.monotonic()
        pause = _LOOK_SECONDS if self._screen.live else _LOOK_PIPE_SECONDS
        if now - self._looked >= pause - _LOOK_CLOSELY_SECONDS:
            self._looked = now
            recent = self._watchers.since(self._clock.wall_ns() - _RECENT_NS)
            over = over_the_delay(recent, self._delay)
            self._screen.show(View(self._seconds(), reading, by_pair(recent), over, self._cut))
        return reading

    @property
    def _delay(self) -> Delay:
        return delay_of(self._plan)

    async def _watch(self, until: float) -> None:
        """Show where things stand until ``until`` seconds after the beginning."""
        pause = _LOOK_SECONDS if self._screen.live else _LOOK_PIPE_SECONDS
        while (left := until - self._seconds()) > _NO_TIME:
            before = self._clock.monotonic()
            await self._look()
            spent = self._clock.monotonic() - before
            await self._clock.sleep(min(max(0.0, pause - spent), left))

    async def _until_reached(self, wanted: summary.Versions) -> None:
        deadline = self._clock.monotonic() + _CATCH_UP_SECONDS
        while not summary.reached(await self._look(), wanted):
            if self._clock.monotonic() > deadline:
                message = f"not caught up {_CATCH_UP_SECONDS:.0f} s after the heal"
                raise NotGood(message)
            await self._clock.sleep(_LOOK_CLOSELY_SECONDS)

    async def _rest(self) -> Reading:
        """Wait until nothing changes and all digests are equal, at two looks a second apart."""
        deadline = self._clock.monotonic() + _CATCH_UP_SECONDS
        before: tuple[int, list[str]] = (-1, [])
        while True:
            reading = await self._look()
            now = (summary.changes(reading), summary.digests(reading))
            if now == before and len(now[1]) == 1:
                return reading
            if self._clock.monotonic() > deadline:
                message = f"not converged: {len(now[1])} different digests"
                raise NotGood(f"{message} {_CATCH_UP_SECONDS:.0f} s after the last change")
            before = now
            await self._clock.sleep(_LOOK_SECONDS)

    def _sum_up(self, outcome: Outcome) -> None:
        for line in summary.summary_lines(outcome, self._delay):
            self._screen.say(line)


def delay_of(plan: Plan) -> Delay:
    """The delays that were asked for."""
    return one_way_ms if plan.wan else no_delay


class Interruption:
    """The first signal cancels what runs here, a second one kills the agents at once."""

    def __init__(self) -> None:
        """No signal yet."""
        self.number: int | None = None

    def taken(self) -> bool:
        """Whether a signal was the reason of a cancellation, which then counts no longer."""
        telling = asyncio.current_task()
        if self.number is None or telling is None:
            return False
        telling.uncancel()
        return True

    @contextmanager
    def watching(self, world: World) -> Iterator[None]:
        """Within this, signals end the story; those that are ignored stay so."""
        loop, telling = asyncio.get_running_loop(), asyncio.current_task()
        assert telling is not None  # noqa: S101 - called within a task

        def received(number: int) -> None:
            if self.number is not None:
                world.kill()
                return
            self.number = number
            telling.cancel()

        caught = [n for n in _SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
        for number in caught:
            loop.add_signal_handler(number, received, number)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)


async def run(plan: Plan, clock: Clock) -> int | None:
    """Run the demonstration; returns the signal that ended it, or None when it ended by itself.

    Raises :class:`NotGood` when it did not go well.  In any case no process and no file is left.
    """
    interruption = Interruption()
    with tempfile.TemporaryDirectory(prefix="replicator-demo-") as folder:
        regions = REGIONS[: plan.regions]
        world = World(Path(folder), regions, plan.churn(), delay_of(plan), clock, AGENT)
        with interruption.watching(world):
            statuses: dict[str, int] = {}
            try:
                with Screen(delay_of(plan)) as screen:
                    await Demo(plan, clock, screen, world).run()
            except asyncio.CancelledError:
                if not interruption.taken():
                    raise
            finally:
                statuses = await world.stop()
        bad = {region: status for region, status in statuses.items() if status != 0}
        if bad and interruption.number is None:
            region, status = next(iter(bad.items()))
            message = f"the agent of {region} ended with {status} when told to stop"
            raise AgentTrouble(message, world.tail(region))
    return interruption.number
