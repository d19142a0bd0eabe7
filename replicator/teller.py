"""Tells of large commits, giving everything else its turn between two slices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from clusters.base import Clock
from replicator.effects import Effect
from replicator.telling import Telling


class Teller:
    """The task that tells what :class:`~replicator.telling.Telling` still has."""

    def __init__(
        self, telling: Telling, clock: Clock, perform: Callable[[list[Effect]], None]
    ) -> None:
        """``perform`` carries out effects; it must not block."""
        self._telling = telling
        self._clock = clock
        self._perform = perform
        self._more = asyncio.Event()

    def wake(self) -> None:
        """Something was committed: there may be more to tell."""
        if self._telling.has_more:
            self._more.set()

    async def run(self) -> None:
        """Tell for ever."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._telling.has_more:
                self._perform(self._telling.more())
                await self._clock.sleep(0.0)
