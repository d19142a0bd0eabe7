"""How long changes took from one region to another, from what the agents' watches said.  Pure.

A change carries the stamp of the moment it was observed at home, and the watch of another region
says when it was committed there.  All regions of the demonstration share one machine and so one
clock: the difference is the lag, change by change, with nothing estimated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Delay = Callable[[str, str], float]
"""The one-way delay of a pair in milliseconds."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One change as one other region committed it; Unix nanoseconds."""

    origin: str
    reader: str
    made_at: int
    committed_at: int

    @property
    def ms(self) -> float:
        """Its lag in milliseconds."""
        return (self.committed_at - self.made_at) / 1e6


def sample_of(reader: str, change: Mapping[str, Any]) -> Sample | None:
    """The sample in one document of ``/v1/watch``; None for a region's own changes."""
    origin = str(change["origin"])
    if origin == reader:
        return None
    made_at = int(str(change["item"]["tag"]).rpartition(":")[2])
    return Sample(origin, reader, made_at, int(change["committed_at"]))


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles of some times in milliseconds, by nearest rank: each is a time that occurred."""

    p50: float
    p99: float
    longest: float
    count: int


def spread(times: Iterable[float]) -> Spread | None:
    """The spread of ``times``; None of nothing."""
    ordered = sorted(times)
    if not ordered:
        return None

    def rank(share: float) -> float:
        return ordered[math.ceil(share * len(ordered)) - 1]

    return Spread(rank(0.50), rank(0.99), ordered[-1], len(ordered))


def by_pair(samples: Iterable[Sample]) -> dict[tuple[str, str], Spread]:
    """The spread of each (origin, reader) that has any sample, in order."""
    times: dict[tuple[str, str], list[float]] = {}
    for sample in samples:
        times.setdefault((sample.origin, sample.reader), []).append(sample.ms)
    found = {pair: spread(times[pair]) for pair in sorted(times)}
    return {pair: made for pair, made in found.items() if made is not None}


def over_the_delay(samples: Iterable[Sample], delay: Delay) -> Spread | None:
    """The spread of what changes took beyond their pair's one-way delay, all pairs together."""
    return spread(sample.ms - delay(sample.origin, sample.reader) for sample in samples)


@dataclass(frozen=True, slots=True)
class Phases:
    """When what happened, Unix nanoseconds, and which region was cut off."""

    victim: str
    began: int
    cut: int
    heal: int
    healed: int

    def _across(self, sample: Sample) -> bool:
        return self.victim in {sample.origin, sample.reader}

    def before(self, samples: Iterable[Sample]) -> list[Sample]:
        """Made and committed before the cut, all regions being connected."""
        return [s for s in samples if s.made_at >= self.began and s.committed_at < self.cut]

    def meanwhile(self, samples: Iterable[Sample]) -> list[Sample]:
        """Made and committed during the cut, between regions that were not cut off."""
        return [
            s
            for s in samples
            if s.made_at >= self.cut and s.committed_at < self.heal and not self._across(s)
        ]

    def waited(self, samples: Iterable[Sample]) -> list[Sample]:
        """Made before the heal, from or for the region cut off, committed after it."""
        return [s for s in samples if s.made_at < self.heal <= s.committed_at and self._across(s)]

    def after(self, samples: Iterable[Sample]) -> list[Sample]:
        """Made after everything had healed."""
        return [s for s in samples if s.made_at >= self.healed]
