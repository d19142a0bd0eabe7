from __future__ import annotations

import asyncio
import io
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from replicator.demo.regions import one_way_ms
from replicator.demo.run import Demo, Interruption, Plan, calm_at, delay_of
from replicator.demo.show import Screen
from replicator.demo.watching import Watchers
from replicator.errors import NotGood, UnreachableError
from tests.replicator.demo.readings import STARTED_AT, cluster, status
from tests.support.clock import FakeClock
from tests.support.network import eventually

REGIONS = ("us-east-1", "us-west-2", "eu-west-1")
PLAN = Plan(seconds=40, regions=3, seed=1, wan=True, keep=False)
CHANGING = PLAN.churn().seconds
START_NS = round(datetime.fromisoformat(STARTED_AT).timestamp() * 1e9)
S = 1_000_000_000


class FakeClient:
    """A watch that says what it is given, and then nothing until it is let go."""

    def __init__(self, changes: list[dict[str, Any]]) -> None:
        self._changes = changes
        self.over = threading.Event()

    def watch(self, _: object) -> Iterator[dict[str, Any]]:
        yield from self._changes
        self.over.wait()
        message = "the stream has ended"
        raise UnreachableError(message)


class FakeRelays:
    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.events: list[tuple[str, str, float]] = []

    def cut(self, region: str) -> None:
        self.events.append(("cut", region, self._clock.monotonic()))

    def heal(self, region: str) -> None:
        self.events.append(("heal", region, self._clock.monotonic()))


class FakeWorld:
    """Three regions that change as long as told and need a while to catch up after a heal."""

    def __init__(self, clock: FakeClock, changes: list[dict[str, Any]]) -> None:
        self.clock = clock
        self.regions = REGIONS
        self.relays = FakeRelays(clock)
        self.clients = {region: FakeClient(changes) for region in REGIONS}
        self.changing = CHANGING
        self.start_seconds = 2.0
        self.heal_seconds = 1.5
        self.agrees = True
        self.began = clock.monotonic()

    def address(self, region: str) -> str:
        return f"unix:/{region}.sock"

    async def start(self, _: datetime) -> None:
        await self.clock.sleep(self.start_seconds)

    async def wait_ready(self, _: float, progress: Callable[[str], None]) -> dict[str, Any]:
        progress("all answer")
        return await self.everyone()

    async def everyone(self) -> dict[str, Any]:
        return {region: self._status(region) for region in REGIONS}

    def _status(self, region: str) -> dict[str, Any]:
        spent = self.clock.monotonic() - self.began
        own = round(10 * min(spent, self.changing))
        held = round(10 * min(self._heard_until() - self.began, self.changing))
        rows = [
            cluster(other, own=other == region, stamp=own if other == region else held)
            for other in REGIONS
        ]
        same = self.agrees and spent > self.changing
        return status(region, *rows, digest="same" if same else region, changes=own)

    def _heard_until(self) -> float:
        """Up to when regions have heard of each other."""
        now, since = self.clock.monotonic(), None
        for what, _, at in self.relays.events:
            if what == "cut":
                since = at
            elif now - at >= self.heal_seconds:
                since = None
        return now if since is None else since


def change(origin: str, made: float, committed: float) -> dict[str, Any]:
    """A watched change; seconds after the start."""
    return {
        "item": {"tag": f"{origin}:{START_NS + round(made * S)}"},
        "origin": origin,
        "committed_at": str(START_NS + round(committed * S)),
    }


class Stage:
    """A demonstration on a clock that the test moves."""

    def __init__(self, plan: Plan = PLAN, changes: list[dict[str, Any]] | None = None) -> None:
        self.clock = FakeClock(wall_ns=START_NS)
        self.world = FakeWorld(self.clock, changes or [])
        self.out = io.StringIO()
        self.screen = Screen(delay_of(plan), self.out)
        self.demo = Demo(plan, self.clock, self.screen, self.world)  # type: ignore[arg-type]

    async def play(self, seconds: float = 200.0) -> None:
        """Run it for so long at most; raises what it raises."""
        running = asyncio.ensure_future(self.demo.run())
        try:
            await self.clock.run_for(seconds)
            if running.done():
                running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def told(self) -> list[str]:
        return self.out.getvalue().splitlines()

    def close(self) -> None:
        for client in self.world.clients.values():
            client.over.set()


@pytest.fixture
async def stages() -> AsyncIterator[Callable[..., Stage]]:
    made: list[Stage] = []

    def make(*args: Any, **kwargs: Any) -> Stage:
        made.append(Stage(*args, **kwargs))
        return made[-1]

    yield make
    for stage in made:
        stage.close()


Make = Callable[..., Stage]


async def test_the_story_cuts_the_last_region_heals_it_and_ends_when_all_are_equal(
    stages: Make,
) -> None:
    stage = stages(changes=[change("us-east-1", 5.0, 5.040)])
    began = stage.clock.monotonic()
    await stage.play()
    told = stage.told()
    (cut, cut_off, cut_at), (heal, healed, heal_at) = stage.world.relays.events
    assert (cut, cut_off, heal, healed) == ("cut", "eu-west-1", "heal", "eu-west-1")
    left = CHANGING - 2.0
    assert cut_at - began == pytest.approx(2.0 + 0.4 * left, abs=0.01)
    assert heal_at - began == pytest.approx(2.0 + 0.7 * left, abs=0.01)
    assert told[-1].startswith("all digests equal    ")
    (heal_line,) = [line for line in told if line.startswith("longest heal ")]
    # Looked for every tenth of a second.
    assert float(heal_line.split()[2]) == pytest.approx(1.5, abs=0.11)
    assert "us-east-1       us-west-2        32.5     40     40     40     +8" in "\n".join(told)


async def test_in_a_pipe_a_line_comes_every_two_seconds(stages: Make) -> None:
    stage = stages()
    await stage.play()
    times = [float(line.split("s")[0]) for line in stage.told() if "oldest head" in line]
    assert len(times) == pytest.approx(19, abs=2)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert all(1.8 <= gap <= 3.1 for gap in gaps)


async def test_regions_that_stay_different_are_not_good(stages: Make) -> None:
    stage = stages()
    stage.world.agrees = False
    with pytest.raises(NotGood, match="not converged: 3 different digests 30 s after"):
        await stage.play()


async def test_a_region_that_does_not_catch_up_is_not_good(stages: Make) -> None:
    stage = stages()
    stage.world.heal_seconds = 1000.0
    with pytest.raises(NotGood, match="not caught up 30 s after the heal"):
        await stage.play()


async def test_agents_that_start_too_slowly_for_the_story_are_not_good(stages: Make) -> None:
    stage = stages()
    stage.world.start_seconds = CHANGING - 4.0
    with pytest.raises(NotGood, match="too long to be ready"):
        await stage.play()


async def test_a_watch_that_ends_early_is_not_good(stages: Make) -> None:
    stage = stages()
    running = asyncio.ensure_future(stage.demo.run())
    await stage.clock.run_for(5.0)
    stage.close()
    for thread in threading.enumerate():
        if thread.name.startswith("watch-"):
            thread.join(10.0)
    await stage.clock.run_for(5.0)
    with pytest.raises(NotGood, match="the watch of eu-west-1 has ended: the stream has ended"):
        await running


async def test_kept_running_it_shows_addresses_and_neither_cuts_nor_ends(stages: Make) -> None:
    plan = Plan(seconds=40, regions=3, seed=1, wan=False, keep=True)
    stage = stages(plan)
    await stage.play(300.0)
    told = stage.told()
    assert "  replicator status --agent unix:/us-west-2.sock" in told
    assert stage.world.relays.events == []
    assert float(told[-1].split("s")[0]) > 290
    assert plan.churn().seconds == 0.0


def test_the_delays_are_those_of_the_matrix_or_none() -> None:
    assert delay_of(PLAN) is one_way_ms
    assert delay_of(Plan(40, 5, 1, wan=False, keep=False))("us-east-1", "us-west-2") == 0.0


def test_calm_begins_when_the_first_agent_stops_changing() -> None:
    later = status("mesa")
    later["agent"]["started_at"] = "2025-12-02T08:00:03.000Z"
    began = datetime(2025, 12, 2, 8, tzinfo=UTC).timestamp()
    assert calm_at({"mesa": later, "fjord": status("fjord")}, 30.0) == began + 30.0


# ---- watching and signals ----------------------------------------------------------------------


async def test_watchers_keep_what_came_from_other_regions_and_find_the_recent() -> None:
    changes = [change("us-east-1", 1.0, 2.0), change("us-west-2", 1.0, 5.0)]
    client = FakeClient(changes)
    watchers = Watchers({"us-east-1": client})  # type: ignore[dict-item]
    watchers.start()
    try:
        await eventually(lambda: len(watchers.samples()) == 1)
        watchers.check()
        assert [found.origin for found in watchers.samples()] == ["us-west-2"]
        assert watchers.since(START_NS + 5 * S) == watchers.samples()
        assert watchers.since(START_NS + 5 * S + 1) == []
    finally:
        client.over.set()


class Killable:
    def __init__(self) -> None:
        self.kills = 0

    def kill(self) -> None:
        self.kills += 1


async def test_the_first_signal_cancels_and_the_second_kills() -> None:
    interruption, world = Interruption(), Killable()
    before = signal.getsignal(signal.SIGTERM)
    with interruption.watching(world):  # type: ignore[arg-type]
        assert not interruption.taken()
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.Event().wait()
        assert interruption.taken()
        assert interruption.number == signal.SIGTERM
        os.kill(os.getpid(), signal.SIGTERM)
        await eventually(lambda: world.kills == 1)
    assert signal.getsignal(signal.SIGTERM) == before


async def test_a_signal_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption().watching(Killable()):  # type: ignore[arg-type]
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
