"""The system's clocks behind :class:`clusters.base.Clock`."""

from __future__ import annotations

import asyncio
import time


def process_seconds() -> float:
    """CPU seconds that this process has used."""
    return time.process_time()


class SystemClock:
    """Real time; one of two places that read it (the other is the command line's own)."""

    def monotonic(self) -> float:
        """Seconds on the system's monotonic clock."""
        return time.monotonic()

    def wall_ns(self) -> int:
        """Unix time in nanoseconds."""
        return time.time_ns()

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(seconds)
