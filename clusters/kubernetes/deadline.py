"""A deadline on the project's own clock, so that waits can be tested in virtual time.

Works as ``asyncio.timeout_at`` does, but on a :class:`~clusters.base.Clock`, and it can be moved.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from clusters.base import Clock

_TICK = 1e-6


class Deadline:
    """``async with Deadline(clock, at):`` raises TimeoutError in its block at monotonic ``at``."""

    def __init__(self, clock: Clock, at: float) -> None:
        """Nothing runs before the block is entered."""
        self._clock = clock
        self._at = at
        self._passed = False
        self._cancelling = 0
        self._owner: asyncio.Task[object] | None = None
        self._timer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._owner = asyncio.current_task()
        if self._owner is None:
            raise RuntimeError("a deadline needs a task")
        self._cancelling = self._owner.cancelling()
        self._timer = asyncio.create_task(self._run(self._owner))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._passed and self._owner is not None:
            ours = self._owner.uncancel() <= self._cancelling
            if ours and kind is not None and issubclass(kind, asyncio.CancelledError):
                raise TimeoutError from error

    def move(self, at: float) -> None:
        """Set another time; an earlier one takes effect at once."""
        earlier, self._at = at < self._at, at
        if earlier and self._timer is not None and self._owner is not None and not self._passed:
            self._timer.cancel()
            self._timer = asyncio.create_task(self._run(self._owner))

    async def _run(self, owner: asyncio.Task[object]) -> None:
        while (left := self._at - self._clock.monotonic()) > _TICK:
            await self._clock.sleep(left)
        self._passed = True
        owner.cancel()
