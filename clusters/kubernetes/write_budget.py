"""How fast we may write to the API server (kubernetes.md M11): a token bucket.  Pure."""

from __future__ import annotations


class WriteBudget:
    """``rate`` writes a second on average, ``burst`` at once."""

    def __init__(self, rate: float, burst: int) -> None:
        """Start with a full bucket."""
        self._rate = rate
        self._burst = float(burst)
        self._tokens = self._burst
        self._at = 0.0

    def take(self, now: float) -> float:
        """Reserve one write; returns the seconds to wait before making it."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        self._tokens -= 1.0
        return 0.0 if self._tokens >= 0 else -self._tokens / self._rate
