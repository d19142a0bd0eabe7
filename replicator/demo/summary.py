"""What the demonstration found, computed from the agents' own answers.  Pure.

A reading is what ``/v1/status`` of every region said at one moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replicator.demo.lag import Delay, Phases, Sample, Spread, by_pair, over_the_delay

Reading = Mapping[str, Mapping[str, Any]]
Versions = dict[str, tuple[int, int]]
IN_TRANSIT_SECONDS = 3.0
"""A head this old was held back: busy origins sign many a second."""


def _row(reading: Reading, reader: str, origin: str) -> Mapping[str, Any] | None:
    rows = reading.get(reader, {}).get("clusters", [])
    return next((row for row in rows if row["cluster"] == origin), None)


def linked(reading: Reading) -> int:
    """How many regions are ready and connected to all they know."""
    return sum(
        status["agent"]["ready"] and all(peer["state"] == "connected" for peer in status["peers"])
        for status in reading.values()
    )


def complete(reading: Reading, services: int) -> int:
    """How many regions hold ``services`` services of every region, their own included."""
    return sum(
        all(
            (row := _row(reading, reader, origin)) is not None and row["services"] >= services
            for origin in reading
        )
        for reader in reading
    )


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


def agreement(reading: Reading, cut: str | None) -> str:
    """In words, whether the regions hold the same; ``cut`` is the region cut off, if any.

    While every region changes all the time, digests are equal only by chance: as long as nobody
    holds an old head of anybody, what differs is in transit.
    """
    if len(digests(reading)) == 1:
        return "equal"
    if cut is not None:
        return f"differ, {cut} is cut off"
    ages = [age for region in reading if (age := oldest_head(reading, region)) is not None]
    return "in transit" if max(ages, default=0.0) < IN_TRANSIT_SECONDS else "differ"


def elements(reading: Reading, region: str) -> int:
    """Live elements in a region's view, its own included."""
    return sum(row["elements"] for row in reading.get(region, {}).get("clusters", []))


def oldest_head(reading: Reading, region: str) -> float | None:
    """Seconds since the oldest head that a region holds of another was signed."""
    rows = reading.get(region, {}).get("clusters", [])
    ages = [row["head_age_seconds"] for row in rows if not row["self"]]
    return max((age for age in ages if age is not None), default=None)


def changes(reading: Reading) -> int:
    """Changes that the simulated clusters have made."""
    counters = (status["source"]["counters"] for status in reading.values())
    return sum(found.get("simulated_changes_total", 0) for found in counters)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that the summary tells."""

    final: Reading
    samples: Sequence[Sample]
    phases: Phases

    @property
    def heal_seconds(self) -> float:
        """From the heal until everything made before it was everywhere."""
        return (self.phases.healed - self.phases.heal) / 1e9


def _ms(found: Spread | None) -> str:
    if found is None:
        return "nothing was measured"
    return (
        f"p50 {found.p50:.0f}  p99 {found.p99:.0f}  max {found.longest:.0f} ms"
        f"  ({found.count} arrivals)"
    )


def pair_lines(samples: Sequence[Sample], delay: Delay) -> list[str]:
    """A table of pairs: the delay, the lag, and the lag without the delay, milliseconds."""
    titles = ("DELAY", "P50", "P99", "MAX", "-DELAY", "P99", "MAX")
    lines = [f"{'FROM':<14}  {'TO':<14}" + "".join(f"{title:>7}" for title in titles)]
    for (origin, reader), found in by_pair(samples).items():
        took = (found.p50, found.p99, found.longest)
        least = delay(origin, reader)
        cells = [f"{least:7.1f}"]
        cells += [f"{time:7.0f}" for time in took]
        cells += [f"{time - least:+7.0f}" for time in took]
        lines.append(f"{origin:<14}  {reader:<14}" + "".join(cells))
    return lines


def summary_lines(outcome: Outcome, delay: Delay) -> list[str]:
    """The summary, line by line, at most 80 columns wide."""
    samples, phases, final = outcome.samples, outcome.phases, outcome.final
    before = phases.before(samples)
    waited = phases.waited(samples)
    longest = max((sample.ms for sample in waited), default=0.0) / 1e3
    cut = (phases.heal - phases.cut) / 1e9
    lines = ["from changed at home to committed elsewhere before the cut, ms:"]
    lines += pair_lines(before, delay)
    lines.append("over the one-way delay, all pairs together:")
    lines.append(f"  before the cut     {_ms(over_the_delay(before, delay))}")
    if len(final) > 2:  # noqa: PLR2004 - of two, no pair is left while one is cut off
        meanwhile = over_the_delay(phases.meanwhile(samples), delay)
        lines.append(f"  others, meanwhile  {_ms(meanwhile)}")
    lines.append(f"  after the heal     {_ms(over_the_delay(phases.after(samples), delay))}")
    lines.append(
        f"cut off              {phases.victim} for {cut:.1f} s; {len(waited)} arrivals waited, "
        f"up to {longest:.1f} s"
    )
    lines.append(
        f"longest heal         {outcome.heal_seconds:.1f} s until all that was held back "
        "was everywhere"
    )
    lines.append(f"changes made         {changes(final)} in {len(final)} regions")
    held = elements(final, next(iter(final)))
    lines.append(f"all digests equal    {digests(final)[0]}, {held} elements in each region")
    return lines
