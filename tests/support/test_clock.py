"""The fake clock itself."""

from __future__ import annotations

import asyncio

from tests.support.clock import FakeClock


async def test_a_sleep_ends_when_the_clock_was_advanced_far_enough() -> None:
    clock = FakeClock()
    sleeping = asyncio.ensure_future(clock.sleep(2))
    await clock.settle()
    assert (clock.sleepers, clock.next_wake) == (1, 2.0)
    clock.advance(1.5)
    await clock.settle()
    assert not sleeping.done()
    clock.advance(0.5)
    await sleeping
    assert (clock.sleepers, clock.next_wake) == (0, None)


async def test_running_for_a_while_wakes_sleepers_in_order() -> None:
    clock = FakeClock()
    woken: list[float] = []
    began = clock.monotonic()

    async def tick(period: float, times: int) -> None:
        for _ in range(times):
            await clock.sleep(period)
            woken.append(round(clock.monotonic() - began, 3))

    async with asyncio.TaskGroup() as group:
        group.create_task(tick(1, 3))
        group.create_task(tick(2, 1))
        await clock.run_for(10)
    assert woken == [1, 2, 2, 3]
    assert clock.monotonic() - began == 10


async def test_a_cancelled_sleep_is_forgotten_and_no_time_is_no_wait() -> None:
    clock = FakeClock()
    sleeping = asyncio.ensure_future(clock.sleep(1))
    await clock.settle()
    sleeping.cancel()
    await clock.settle()
    assert clock.sleepers == 0
    clock.advance(2)
    await clock.sleep(0)


def test_the_wall_clock_steps_alone() -> None:
    clock = FakeClock(wall_ns=10)
    before = clock.monotonic()
    clock.set_wall_ns(5)
    assert (clock.wall_ns(), clock.monotonic()) == (5, before)
    clock.advance(1)
    assert clock.wall_ns() == 1_000_000_005
