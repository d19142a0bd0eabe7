"""Restarts watch tasks that die of a surprise, and says when that no longer helps (W16).

The only place that catches everything: whatever ended the task is logged with its traceback,
counted, and the task is made anew with a fresh session.  Too many deaths in a short time are for
the kubelet.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import structlog

from clusters.base import Clock

_log = structlog.get_logger()


class Supervisor:
    """Keeps named jobs running."""

    def __init__(self, clock: Clock, *, deaths: int, within: float) -> None:
        """``deaths`` of one job ``within`` so many seconds make it a failed one."""
        self._clock = clock
        self._deaths = deaths
        self._within = within
        self._died: dict[str, deque[float]] = {}
        self.restarts = 0
        """Jobs started again since the beginning."""

    async def keep(
        self, name: str, job: Callable[[], Awaitable[None]], died: Callable[[], None]
    ) -> None:
        """Run ``job`` again and again until cancelled; ``died`` is called after each death."""
        while True:
            try:
                await job()
            except asyncio.CancelledError:
                raise
            except Exception:  # noqa: BLE001  # whatever it is, the watch must go on
                _log.exception("watch_task_died", task=name)
            else:
                _log.error("watch_task_ended", task=name)
            times = self._died.setdefault(name, deque(maxlen=self._deaths))
            times.append(self._clock.monotonic())
            self.restarts += 1
            died()

    def failed(self) -> tuple[str, ...]:
        """Names of the jobs that keep dying, sorted."""
        now = self._clock.monotonic()
        return tuple(
            sorted(
                name
                for name, times in self._died.items()
                if len(times) == self._deaths and now - times[0] <= self._within
            )
        )
