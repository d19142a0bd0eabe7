"""Ages, offsets and percentiles: how far behind a view may be.

Pure values fed with readings; ages come from the monotonic clock, offsets from the four
timestamps of a heartbeat exchange (RFC 5905 section 8), never from stamps.  Nothing here deletes
or hides data.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

_SAMPLES = 8
_MS = 1e-6


class State(StrEnum):
    """How current our view of an origin is; shown, and acted on only by policy."""

    FRESH = "fresh"
    LAGGING = "lagging"
    STALE = "stale"
    UNKNOWN = "unknown"


LAGGING_DIRECT_SECONDS = 5.0
LAGGING_RELAYED_SECONDS = 25.0


def state_of(age: float | None, *, direct: bool, stale_after: float) -> State:
    """State of an origin whose freshness last advanced ``age`` seconds ago (None: never)."""
    if age is None:
        return State.UNKNOWN
    if age >= stale_after:
        return State.STALE
    limit = LAGGING_DIRECT_SECONDS if direct else LAGGING_RELAYED_SECONDS
    return State.LAGGING if age >= limit else State.FRESH


@dataclass(frozen=True, slots=True)
class Exchange:
    """One heartbeat exchange: round trip and the peer's clock minus ours, nanoseconds."""

    rtt_ns: int
    offset_ns: int


def exchange(sent: int, peer_received: int, peer_sent: int, received: int) -> Exchange:
    """Round trip and offset from the four timestamps; ours are the first and the last."""
    rtt = max(0, (received - sent) - (peer_sent - peer_received))
    offset = ((peer_received - sent) + (peer_sent - received)) // 2
    return Exchange(rtt, offset)


class ClockFilter:
    """The best recent exchange: the one with the least round trip, as NTP's clock filter."""

    __slots__ = ("_best", "_recent")

    def __init__(self) -> None:
        """Nothing measured yet."""
        self._recent: deque[Exchange] = deque(maxlen=_SAMPLES)
        self._best: Exchange | None = None

    def add(self, sample: Exchange) -> None:
        """Take one exchange."""
        self._recent.append(sample)
        self._best = min(self._recent, key=lambda sample: sample.rtt_ns)

    def best(self) -> Exchange | None:
        """The exchange with the least round trip among the last eight, None before any."""
        return self._best


class Latencies:
    """The last thousand convergence times of one origin."""

    __slots__ = ("_seconds", "count")

    def __init__(self) -> None:
        """Nothing measured yet."""
        self._seconds: deque[float] = deque(maxlen=1000)
        self.count = 0

    def add(self, seconds: float) -> None:
        """Take one measurement."""
        self._seconds.append(seconds)
        self.count += 1

    def summary(self) -> dict[str, float | int | None]:
        """Percentiles and maximum (ms) of the last thousand, and how many there ever were."""
        ordered = sorted(self._seconds)
        if not ordered:
            return {"p50": None, "p95": None, "p99": None, "max": None, "count": 0}
        return {
            "p50": round(1e3 * _quantile(ordered, 0.50), 3),
            "p95": round(1e3 * _quantile(ordered, 0.95), 3),
            "p99": round(1e3 * _quantile(ordered, 0.99), 3),
            "max": round(1e3 * ordered[-1], 3),
            "count": self.count,
        }


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def milliseconds(nanoseconds: int) -> float:
    """Nanoseconds as milliseconds with three decimals."""
    return round(nanoseconds * _MS, 3)
