"""The story the demonstration tells: churn, one region cut off, its heal, rest, and the sum."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from clusters.base import Clock
from replicator.demo import summary
from replicator.demo.regions import REGIONS, one_way_ms
from replicator.demo.show import Screen
from replicator.demo.summary import Pair, Reading
from replicator.demo.world import Churn, World
from replicator.errors import NotGood

_READY_SECONDS = 60.0
_REST_SECONDS = 20.0
_LOOK_SECONDS = 1.0
_LOOK_PIPE_SECONDS = 2.0
_HEAL_LOOK_SECONDS = 0.1
_CUT_AT, _HEAL_AT, _CALM_AT = 0.35, 0.6, 0.85
_SERVICES, _ENDPOINTS, _CHANGES_PER_SECOND = 20, 10, 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for."""

    seconds: float
    regions: int
    seed: int
    wan: bool
    keep: bool


def _no_delay(_: str, __: str) -> float:
    return 0.0


class Demo:
    """One run."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        """Nothing is started yet."""
        self._plan = plan
        self._clock = clock
        self._delay: Callable[[str, str], float] = one_way_ms if plan.wan else _no_delay
        self._began = 0.0

    async def run(self) -> None:
        """Tell the story; raises :class:`NotGood` unless all regions ended up equal."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        with tempfile.TemporaryDirectory(prefix="replicator-demo-") as folder:
            churn = Churn(
                _SERVICES,
                _ENDPOINTS,
                _CHANGES_PER_SECOND,
                self._plan.seed,
                0.0 if self._plan.keep else self._plan.seconds * _CALM_AT,
            )
            regions = REGIONS[: self._plan.regions]
            world = World(Path(folder), regions, churn, self._delay, self._clock)
            with Screen(self._delay) as screen:
                try:
                    await self._until_stopped(stop, self._story(world, screen, stop))
                finally:
                    await world.stop()

    @staticmethod
    async def _until_stopped(stop: asyncio.Event, story: object) -> None:
        telling = asyncio.ensure_future(story)  # type: ignore[call-overload]  # a coroutine
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({telling, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not telling.done():
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
            raise KeyboardInterrupt
        telling.result()

    async def _story(self, world: World, screen: Screen, stop: asyncio.Event) -> None:
        plan = self._plan
        screen.say(f"starting {plan.regions} agents with mutual TLS ...")
        await world.start(datetime.now(UTC))
        await world.wait_ready(self._clock.monotonic() + _READY_SECONDS)
        self._began = self._clock.monotonic()
        screen.say(f"all {plan.regions} agents are ready; every region changes its endpoints")
        if plan.keep:
            for region in world.regions:
                screen.say(
                    f"  replicator --help; replicator status --agent {world.address(region)}"
                )
            screen.say("stop with Ctrl-C")
            await stop.wait()
            return
        steady = await self._watch(world, screen, plan.seconds * _CUT_AT)
        victim = world.regions[-1]
        screen.say(f"--- {victim} is cut off; the others go on")
        world.relays.cut(victim)
        await self._watch(world, screen, plan.seconds * _HEAL_AT)
        screen.say(f"--- {victim} is connected again")
        wanted = summary.own_versions(await world.statuses())
        world.relays.heal(victim)
        healed = await self._heal(world, wanted)
        screen.say(f"--- everything from before the heal is everywhere after {healed:.1f} s")
        await self._watch(world, screen, plan.seconds * _CALM_AT)
        screen.say("--- changes have stopped; waiting for rest")
        final, rest = await self._rest(world)
        self._sum_up(screen, steady, final, healed, rest)

    def _seconds(self) -> float:
        return self._clock.monotonic() - self._began

    async def _watch(self, world: World, screen: Screen, until: float) -> Reading:
        """Show where things stand until ``until`` seconds; returns the last reading."""
        while True:
            world.check_alive()
            reading = await world.statuses()
            screen.show(self._seconds(), reading)
            left = until - self._seconds()
            if left <= 0:
                return reading
            pause = _LOOK_SECONDS if screen.live else _LOOK_PIPE_SECONDS
            await self._clock.sleep(min(pause, left))

    async def _heal(self, world: World, wanted: summary.Versions) -> float:
        began = self._clock.monotonic()
        while True:
            reading = await world.statuses()
            took = self._clock.monotonic() - began
            if summary.reached(reading, wanted):
                return took
            if took > _REST_SECONDS:
                message = f"the regions had not caught up {took:.0f} s after the heal"
                raise NotGood(message)
            await self._clock.sleep(_HEAL_LOOK_SECONDS)

    async def _rest(self, world: World) -> tuple[Reading, float]:
        """Wait until all digests are equal and stay so for two looks."""
        began = self._clock.monotonic()
        before: list[str] = []
        while True:
            reading = await world.statuses()
            held = summary.digests(reading)
            took = self._clock.monotonic() - began
            if len(held) == 1 and held == before and len(reading) == len(world.regions):
                return reading, took
            if took > _REST_SECONDS:
                message = f"not converged: {len(held)} different digests after {took:.0f} s of rest"
                raise NotGood(message)
            before = held
            await self._clock.sleep(_LOOK_SECONDS)

    def _sum_up(
        self, screen: Screen, steady: Reading, final: Reading, healed: float, rest: float
    ) -> None:
        rows = summary.pairs(steady, self._delay)
        screen.pairs("convergence before the cut, ms from observed to committed:", rows)

        def over(share: Callable[[Pair], float | None]) -> str:
            value = summary.slowest_over_delay(rows, share)
            return "-" if value is None else f"{value:.0f} ms"

        p50, p99, most = over(lambda r: r.p50), over(lambda r: r.p99), over(lambda r: r.longest)
        screen.say(f"changes made          {summary.changes(final)}")
        screen.say(f"slowest pair over the one-way delay   p50 {p50}  p99 {p99}  max {most}")
        screen.say(f"longest heal          {healed:.1f} s")
        digest = summary.digests(final)[0]
        elements = summary.elements(final, next(iter(final)))
        screen.say(
            f"all {len(final)} regions hold the same {elements} elements, digest {digest} "
            f"(equal {rest:.1f} s after the last change)"
        )
