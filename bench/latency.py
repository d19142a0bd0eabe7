"""(b) From the stamp of a change at its origin to its commit everywhere else: five real agents.

Links run over the delaying relay, which lives in this process: it and all five agents share two
cores.  A sample is one commit: the time from when the oldest change in it was observed.  Each pair
gives percentiles over its last thousand commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.worlds import Bench, counter, running
from replicator.demo import summary
from replicator.demo.regions import REGIONS, one_way_ms
from replicator.demo.world import Churn

WARM_SECONDS = 5.0
SERVICES, ENDPOINTS = 20, 10
_SETTLE_SECONDS = 10.0
_PARTS = ("p50", "p95", "p99", "max")


async def measure(rate: float, seconds: float, seed: int) -> dict[str, Any]:
    """Percentiles per pair at ``rate`` changes per second and region."""
    churns = {region: Churn(SERVICES, ENDPOINTS, rate, seed, 0.0) for region in REGIONS}
    async with running(churns, direct=False) as world:
        await world.clock.sleep(WARM_SECONDS)
        before = await world.statuses()
        used = {region: world.usage(region).cpu_seconds for region in REGIONS}
        began = world.clock.monotonic()
        await world.clock.sleep(seconds)
        spent = world.clock.monotonic() - began
        cpu = {region: world.usage(region).cpu_seconds - used[region] for region in REGIONS}
        after = await world.statuses()
        await _arrived(world, after)
    pairs = pairs_of(before, after)
    return {
        "changes_per_second_per_region": rate,
        "seconds": round(spent, 3),
        "source_events": sum(counter(after[r]) - counter(before[r]) for r in REGIONS),
        "cpu_seconds": {region: round(value, 2) for region, value in cpu.items()},
        "cores_used_by_agents": round(sum(cpu.values()) / spent, 2),
        "pairs": pairs,
        "writers": writers_of(pairs),
        "worst_over_delay": {
            part: round(max(pair[part] - pair["one_way_ms"] for pair in pairs), 1)
            for part in _PARTS
        },
    }


async def _arrived(world: Bench, reading: summary.Reading) -> None:
    """All that was published by then is committed everywhere; else the figures mean nothing."""
    wanted = summary.own_versions(reading)
    deadline = world.clock.monotonic() + _SETTLE_SECONDS
    while not summary.reached(await world.statuses(), wanted):
        if world.clock.monotonic() > deadline:
            message = "changes were not committed everywhere: no latencies to report"
            raise RuntimeError(message)
        await world.clock.sleep(0.2)


def pairs_of(before: summary.Reading, after: summary.Reading) -> list[dict[str, Any]]:
    """Percentiles and commits of every pair of regions, in milliseconds."""
    rows = []
    for origin in REGIONS:
        for reader in REGIONS:
            if origin == reader:
                continue
            latency = _latency(after, reader, origin)
            row = {"origin": origin, "reader": reader, "one_way_ms": one_way_ms(origin, reader)}
            row |= {part: round(latency[part], 1) for part in _PARTS}
            row["commits"] = latency["count"] - _latency(before, reader, origin)["count"]
            rows.append(row)
    return rows


def _latency(reading: summary.Reading, reader: str, origin: str) -> Mapping[str, Any]:
    clusters = reading[reader]["clusters"]
    return dict(next(row for row in clusters if row["cluster"] == origin)["convergence_ms"])


def writers_of(pairs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Visible in all regions: each writer at the reader where it takes longest."""
    rows = []
    for origin in REGIONS:
        mine = [pair for pair in pairs if pair["origin"] == origin]
        row: dict[str, Any] = {"origin": origin}
        row["farthest_one_way_ms"] = max(pair["one_way_ms"] for pair in mine)
        rows.append(row | {part: max(pair[part] for pair in mine) for part in _PARTS})
    return rows
