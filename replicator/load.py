"""How busy an agent is, and whether it takes more peers (operations.md: admission by load).

The score is 0.6 x CPU + 0.4 x queues, each from 0 to 100.  CPU is the process's share of one core:
replication runs on one event loop.  Queues are the services that wait to be read or written, 100
for ``FULL_QUEUES`` of them.  From ``SHED_FROM`` clusters that are not linked are turned away until
the score is below ``SHED_UNTIL``; links that are up go on, and are renewed.

Pure: readings are arguments.
"""

from __future__ import annotations

SHED_FROM, SHED_UNTIL = 85.0, 70.0
FULL_QUEUES = 10_000
_SMOOTHING_SECONDS = 5.0
_CPU, _QUEUES = 60.0, 40.0


class Load:
    """The load of one agent."""

    def __init__(self) -> None:
        """Calm, until the second reading."""
        self.score = 0.0
        """0 to 100, over the last seconds."""
        self.shedding = False
        """Whether clusters that are not linked are turned away."""
        self._last: tuple[float, float] | None = None

    def note(self, now: float, cpu_seconds: float, waiting: int) -> None:
        """Take a reading.

        ``now`` is monotonic seconds, ``cpu_seconds`` what the process has used of the CPU so far,
        ``waiting`` how many services wait.
        """
        if self._last is None:
            self._last = now, cpu_seconds
            return
        at, used = self._last
        elapsed = now - at
        if elapsed <= 0:
            return
        self._last = now, cpu_seconds
        cpu = min(1.0, max(0.0, cpu_seconds - used) / elapsed)
        score = _CPU * cpu + _QUEUES * min(1.0, waiting / FULL_QUEUES)
        self.score += (score - self.score) * min(1.0, elapsed / _SMOOTHING_SECONDS)
        self.shedding = self.score >= (SHED_UNTIL if self.shedding else SHED_FROM)
