"""Watch tasks that die are started again (kubernetes.md W16)."""

from __future__ import annotations

import asyncio

import structlog

from clusters.kubernetes.supervisor import Supervisor
from tests.support.clock import FakeClock


class Job:
    """Dies as told, then lives for ever."""

    def __init__(self, *ends: Exception | None) -> None:
        self.ends = list(ends)
        self.deaths = 0

    async def run(self) -> None:
        if self.ends:
            end = self.ends.pop(0)
            if end is not None:
                raise end
            return
        await asyncio.get_running_loop().create_future()

    def died(self) -> None:
        self.deaths += 1


async def supervise(job: Job) -> tuple[Supervisor, FakeClock, list[str]]:
    clock = FakeClock()
    supervisor = Supervisor(clock, deaths=3, within=300)
    with structlog.testing.capture_logs() as logs:
        task = asyncio.create_task(supervisor.keep("slices", job.run, job.died))
        await clock.settle()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return supervisor, clock, [one["event"] for one in logs]


async def test_a_surprise_is_logged_counted_and_survived() -> None:
    job = Job(RuntimeError("Session is closed"), None)
    supervisor, _, logs = await supervise(job)

    assert logs == ["watch_task_died", "watch_task_ended"]
    assert (supervisor.restarts, job.deaths) == (2, 2)
    assert supervisor.failed() == ()


async def test_three_deaths_in_five_minutes_make_a_failed_task_for_a_while() -> None:
    supervisor, clock, _ = await supervise(Job(*[KeyError("x")] * 5))

    assert supervisor.failed() == ("slices",)
    clock.advance(300)
    assert supervisor.failed() == ("slices",)
    clock.advance(1)
    assert supervisor.failed() == ()
