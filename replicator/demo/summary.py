"""What the demonstration found, computed from the agents' own answers.  Pure.

A reading is what ``/v1/status`` of every region said at one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Reading = Mapping[str, Mapping[str, Any]]
Versions = dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Pair:
    """Convergence from one region to another, milliseconds; delay is the one-way time."""

    origin: str
    reader: str
    delay: float
    p50: float | None
    p99: float | None
    longest: float | None
    count: int


def _row(reading: Reading, reader: str, origin: str) -> Mapping[str, Any] | None:
    rows = reading.get(reader, {}).get("clusters", [])
    return next((row for row in rows if row["cluster"] == origin), None)


def pairs(reading: Reading, delay: Callable[[str, str], float]) -> list[Pair]:
    """One row per ordered pair that has measured anything."""
    found = []
    for origin in sorted(reading):
        for reader in sorted(reading):
            row = None if origin == reader else _row(reading, reader, origin)
            latency = None if row is None else row["convergence_ms"]
            if latency is not None:
                times = (latency["p50"], latency["p99"], latency["max"])
                found.append(Pair(origin, reader, delay(origin, reader), *times, latency["count"]))
    return found


def own_versions(reading: Reading) -> Versions:
    """Each region's own published position: (epoch, stamp)."""
    return {
        region: position
        for region in reading
        if (position := _position(_row(reading, region, region))) is not None
    }


def _position(row: Mapping[str, Any] | None) -> tuple[int, int] | None:
    head = None if row is None else row["head"]
    if head is None:
        return None
    return int(head["epoch"]), int(head["stamp"].rpartition(":")[2])


def reached(reading: Reading, wanted: Versions) -> bool:
    """Whether every region has committed every origin at least up to ``wanted``."""
    for reader in wanted:
        for origin, version in wanted.items():
            position = _position(_row(reading, reader, origin))
            if position is None or position < version:
                return False
    return True


def digests(reading: Reading) -> list[str]:
    """The different digests that the regions hold; one when all agree."""
    return sorted({status["digest"] for status in reading.values()})


def elements(reading: Reading, region: str) -> int:
    """Live elements in a region's view, its own included."""
    return sum(row["elements"] for row in reading.get(region, {}).get("clusters", []))


def changes(reading: Reading) -> int:
    """Changes that the simulated clusters have made."""
    counters = (status["source"]["counters"] for status in reading.values())
    return sum(found.get("simulated_changes_total", 0) for found in counters)


def slowest_over_delay(rows: list[Pair], share: Callable[[Pair], float | None]) -> float | None:
    """The largest excess over the one-way delay among the pairs."""
    times = [(share(row), row.delay) for row in rows]
    return max((time - delay for time, delay in times if time is not None), default=None)
