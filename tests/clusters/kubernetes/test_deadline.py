"""Deadlines on the project's own clock."""

from __future__ import annotations

import asyncio

import pytest

from clusters.kubernetes.deadline import Deadline
from tests.support.clock import FakeClock


async def wait_within(clock: FakeClock, deadline: Deadline) -> str:
    try:
        async with deadline:
            await clock.sleep(1000)
    except TimeoutError:
        return "timeout"
    return "done"


async def test_a_block_that_lasts_too_long_is_timed_out_at_the_time_given() -> None:
    clock = FakeClock()
    task = asyncio.create_task(wait_within(clock, Deadline(clock, clock.monotonic() + 5)))
    await clock.run_for(4.9)
    assert not task.done()
    await clock.run_for(0.1)
    assert task.result() == "timeout"


async def test_a_block_that_ends_in_time_leaves_no_timer() -> None:
    clock = FakeClock()
    async with Deadline(clock, clock.monotonic() + 5):
        await asyncio.sleep(0)
    await clock.run_for(10)
    assert len(asyncio.all_tasks()) == 1


async def test_other_errors_pass() -> None:
    clock = FakeClock()
    with pytest.raises(ValueError, match="other"):
        async with Deadline(clock, clock.monotonic() + 5):
            raise ValueError("other")


@pytest.mark.parametrize(("moved", "ends"), [(2.0, 2.0), (8.0, 8.0), (5.0, 5.0)])
async def test_it_can_be_moved_both_ways(moved: float, ends: float) -> None:
    clock = FakeClock()
    start = clock.monotonic()
    deadline = Deadline(clock, start + 5)
    task = asyncio.create_task(wait_within(clock, deadline))
    await clock.run_for(1)
    deadline.move(start + moved)
    await clock.run_for(ends - 1.1)
    assert not task.done()
    await clock.run_for(0.2)
    assert task.result() == "timeout"


async def test_it_may_be_moved_before_and_after_its_block() -> None:
    clock = FakeClock()
    deadline = Deadline(clock, clock.monotonic() + 5)
    deadline.move(clock.monotonic() + 1)
    task = asyncio.create_task(wait_within(clock, deadline))
    await clock.run_for(1)
    assert task.result() == "timeout"
    deadline.move(clock.monotonic() - 5)


async def test_a_cancellation_from_outside_is_not_a_timeout() -> None:
    clock = FakeClock()
    task = asyncio.create_task(wait_within(clock, Deadline(clock, clock.monotonic() + 5)))
    await clock.run_for(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_at_the_same_moment_wins() -> None:
    clock = FakeClock()
    task = asyncio.create_task(wait_within(clock, Deadline(clock, clock.monotonic() + 5)))
    await clock.settle()
    clock.advance(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_deadlines_nest() -> None:
    clock = FakeClock()

    async def nested() -> str:
        async with Deadline(clock, clock.monotonic() + 9):
            return await wait_within(clock, Deadline(clock, clock.monotonic() + 5))

    task = asyncio.create_task(nested())
    await clock.run_for(5)
    assert task.result() == "timeout"
