"""Tells which work does not come to an end.

Whoever works says when it begins a step, makes progress, and ends.  A step without progress for too
long is *stuck*: it is shown until that work has ended well once, so that work which is given up and
gets stuck again is not taken for healthy.

Pure; readings are arguments.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Watchdog(Generic[K]):
    """Watches any number of works at once, each by its key."""

    def __init__(self, limit: float) -> None:
        """A step may take ``limit`` seconds."""
        self._limit = limit
        self._since: dict[K, float] = {}
        self._stuck: dict[K, float] = {}
        """Since when those that are shown have made no progress."""
        self.fired = 0
        """How often a step was found stuck, since the start."""

    def progress(self, key: K, now: float) -> None:
        """Work on ``key`` begins, or goes on with another step."""
        self._since[key] = now

    def ended(self, key: K, *, well: bool) -> None:
        """Work on ``key`` is over; ``well`` unless it was given up."""
        self._since.pop(key, None)
        if well:
            self._stuck.pop(key, None)

    def overdue(self, now: float) -> list[K]:
        """Works whose step is stuck since the last look, in order of their beginning."""
        found = [key for key, since in self._since.items() if now - since >= self._limit]
        for key in found:
            self._stuck.setdefault(key, self._since[key])
            self._since[key] = now
        self.fired += len(found)
        return found

    def stuck(self, now: float) -> dict[K, float]:
        """What is stuck at present, with the seconds since it last made progress."""
        return {key: now - since for key, since in self._stuck.items()}
