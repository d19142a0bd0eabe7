"""The loop on which whole agents are tested."""

from __future__ import annotations

import asyncio
import time
from contextvars import copy_context

from tests.support.virtual_loop import PROCESS, VirtualClock, VirtualLoop, in_virtual_time


def loop() -> VirtualLoop:
    running = asyncio.get_running_loop()
    assert isinstance(running, VirtualLoop)
    return running


@in_virtual_time
async def test_an_hour_takes_no_time() -> None:
    clock, began = VirtualClock(), time.monotonic()
    start, wall_ns = clock.monotonic(), clock.wall_ns()
    await clock.sleep(3600)
    assert clock.monotonic() == start + 3600
    assert clock.wall_ns() == wall_ns + 3600 * 10**9
    assert time.monotonic() - began < 60


@in_virtual_time
async def test_time_stands_still_while_a_thread_works() -> None:
    clock = VirtualClock()
    before = clock.monotonic()
    timer = asyncio.create_task(clock.sleep(0.001))
    await asyncio.to_thread(time.sleep, 0.05)
    assert clock.monotonic() == before
    await timer
    assert clock.monotonic() == before + 0.001


@in_virtual_time
async def test_a_frozen_process_goes_on_where_it_stopped() -> None:
    clock, told = VirtualClock(), []

    async def work() -> None:
        while True:
            await clock.sleep(1)
            told.append(clock.monotonic())

    context = copy_context()
    context.run(PROCESS.set, "one")
    task = asyncio.get_running_loop().create_task(work(), context=context)
    start = clock.monotonic()
    await clock.sleep(2.5)
    loop().freeze("one")
    await clock.sleep(10)
    assert told == [start + 1, start + 2]
    loop().thaw("one")
    await clock.sleep(1.1)
    assert told == [start + 1, start + 2, start + 12.5, start + 13.5]
    task.cancel()
