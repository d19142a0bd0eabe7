"""A clock that moves only when told to, so that tests of waits take no time."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count


class FakeClock:
    """Implements :class:`clusters.base.Clock`; see :meth:`advance` and :meth:`run_for`."""

    def __init__(
        self, *, monotonic: float = 1000.0, wall_ns: int = 1_764_655_200_000_000_000
    ) -> None:
        """Start at the given readings."""
        self._monotonic = monotonic
        self._wall_ns = wall_ns
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()

    def monotonic(self) -> float:
        """Seconds, as far as advanced."""
        return self._monotonic

    def wall_ns(self) -> int:
        """Unix nanoseconds, as far as advanced or set."""
        return self._wall_ns

    def set_wall_ns(self, wall_ns: int) -> None:
        """Step the wall clock; the monotonic one does not notice."""
        self._wall_ns = wall_ns

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was advanced by ``seconds``."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._monotonic + seconds, next(self._numbers), future))
        await future

    @property
    def sleepers(self) -> int:
        """How many waits are pending."""
        return sum(not future.done() for _, _, future in self._sleepers)

    @property
    def next_wake(self) -> float | None:
        """Seconds until the next pending wait ends; None without one."""
        pending = [at for at, _, future in self._sleepers if not future.done()]
        return min(pending) - self._monotonic if pending else None

    def advance(self, seconds: float) -> None:
        """Move both clocks and end the waits that are over; does not run the tasks."""
        self._monotonic += seconds
        self._wall_ns += round(seconds * 1e9)
        while self._sleepers and self._sleepers[0][0] <= self._monotonic + 1e-9:
            _, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                future.set_result(None)

    async def settle(self, rounds: int = 20) -> None:
        """Let the tasks run until they wait for something."""
        for _ in range(rounds):
            await asyncio.sleep(0)

    async def run_for(self, seconds: float) -> None:
        """Advance step by step from wait to wait, letting the tasks run in between."""
        end = self._monotonic + seconds
        await self.settle()
        while (step := self.next_wake) is not None and self._monotonic + step <= end:
            self.advance(max(step, 0.0))
            await self.settle()
        self.advance(max(end - self._monotonic, 0.0))
        await self.settle()
