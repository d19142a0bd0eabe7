"""(kubernetes) From the event of one API server to the slice in another: two real clusters.

All times are taken in this process by watches of both API servers, so clocks need not agree; what
the measurement itself needs to be woken and to read an event is in them.  The relay between the
agents is in this process, too, and everything shares two cores.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import machine
from bench.kube_pair import ONE_WAY_MS, SOURCE, TARGET, Pair
from bench.kube_views import Views, address, empty, until, watching
from bench.sightings import Sightings, spread
from tests.e2e.kube.api import Api, Object
from tests.e2e.objects import (
    SERVICE_LABEL,
    SERVICES,
    SLICES,
    endpoint,
    endpoint_slice,
    service,
)

_AT_ONCE = 16
_QUIET_SECONDS = 3.0
_PROBE_SECONDS = 0.01
_PREFERRED = -19
"""Nice value at which what else runs on the machine hardly matters."""
_ADDRESSES = 100
"""Endpoints in one slice of the big service, as Kubernetes' own controller makes them."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    live_services: int = 20
    live_endpoints: int = 10
    rate: float = 20.0
    seconds: float = 30.0
    big_endpoints: int = 10_000
    big_changes: int = 20
    services: int = 2_000
    endpoints: int = 10


async def _many(calls: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Make calls, several at once."""
    left = iter(calls)

    async def work() -> None:
        for call in left:
            await call()

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))


def _endpoints(first: int, count: int) -> list[Object]:
    numbers = range(first, first + count)
    return [endpoint(f"10.{64 + n // 65536}.{n // 256 % 256}.{n % 256}") for n in numbers]


async def _offer(api: Api, name: str, first: int, count: int, per_slice: int) -> None:
    await api.create(SERVICES, service(name))
    for at in range(0, count, per_slice):
        endpoints = _endpoints(first + at, min(per_slice, count - at))
        one = endpoint_slice(f"{name}-{at // per_slice}", name, endpoints)
        await api.create(SLICES, one)


def _live(index: int) -> str:
    return f"live-{index}"


async def _change(pair: Pair, views: Views, scale: Scale, index: int) -> None:
    """Replace one endpoint of a live service, as a new pod in place of another would."""
    name = _live(index)
    number = views.sightings.ask(name, pair.clock.monotonic())
    kept = _endpoints(index * scale.live_endpoints, scale.live_endpoints - 1)
    body = {"endpoints": [*kept, endpoint(address(number))]}
    await pair.planes[SOURCE].admin.patch(f"{SLICES}/{name}-0", body)


async def _churn(pair: Pair, views: Views, scale: Scale, more: Callable[[], bool]) -> None:
    """Change the live services in turn at the rate, each call at its own time."""
    began, index = pair.clock.monotonic(), 0
    async with asyncio.TaskGroup() as calls:
        while more():
            calls.create_task(_change(pair, views, scale, index % scale.live_services))
            index += 1
            due = began + index / scale.rate
            await pair.clock.sleep(max(0.0, due - pair.clock.monotonic()))


async def _offer_live(pair: Pair, views: Views, scale: Scale) -> None:
    api, per = pair.planes[SOURCE].admin, scale.live_endpoints
    for index in range(scale.live_services):
        await _offer(api, _live(index), index * per, per, per)
    await until(views, "live", scale.live_services * per)


async def _latency(pair: Pair, views: Views, scale: Scale, nice: int) -> dict[str, Any]:
    """Change the live services for a while, at this nice value against others' programs."""
    clock, views.sightings = pair.clock, Sightings()
    preferred = pair.prefer(nice)
    await clock.sleep(_QUIET_SECONDS)
    stages, used = await _stages(pair), _cpu(pair)
    late: list[float] = []
    probe = asyncio.create_task(_lateness(pair, late))
    began = clock.monotonic()
    await _churn(pair, views, scale, lambda: clock.monotonic() < began + scale.seconds)
    spent, cpu = clock.monotonic() - began, _cpu(pair)
    probe.cancel()
    await clock.sleep(_QUIET_SECONDS)
    pair.prefer(0)
    found = views.sightings.milliseconds()
    return {
        "nice": nice if preferred else None,
        "changes_per_second": scale.rate,
        "seconds": round(spent, 1),
        **found,
        "lost": views.sightings.lost(),
        "over_delay": _over(found["from_event"]),
        "cores_used_by_agent": {name: round((cpu[name] - used[name]) / spent, 3) for name in cpu},
        "own_lateness_ms": spread(late),
        "stages_ms": _between(stages, await _stages(pair)),
        "load": machine.load(),
    }


def _over(found: dict[str, Any]) -> dict[str, float | None]:
    return {
        part: None if found[part] is None else round(found[part] - ONE_WAY_MS, 2)
        for part in ("p50", "p90", "p99", "max")
    }


def _cpu(pair: Pair) -> dict[str, float]:
    return {name: pair.cpu_seconds(name) for name in pair.agents}


async def _stages(pair: Pair) -> dict[str, dict[str, float]]:
    found = {}
    for name in pair.agents:
        metrics = await pair.metrics(name)
        found[name] = {k: v for k, v in metrics.items() if "_seconds_" in k}
    return found


def _between(
    before: dict[str, dict[str, float]], after: dict[str, dict[str, float]]
) -> dict[str, dict[str, float]]:
    """Mean milliseconds of each stage of the agents' own account, between two readings."""
    means: dict[str, dict[str, float]] = {}
    for name, samples in after.items():
        for key, total in samples.items():
            count = key.replace("_seconds_sum", "_seconds_count")
            if count == key or count not in samples:
                continue
            n = samples[count] - before[name].get(count, 0.0)
            spent = total - before[name].get(key, 0.0)
            label = key.partition("{")[2].rstrip("}") or key
            if n > 0:
                means.setdefault(name, {})[label] = round(1e3 * spent / n, 2)
    return means


def _sum(metrics: dict[str, float], *parts: str) -> float:
    return sum(v for k, v in metrics.items() if all(part in k for part in parts))


async def _one_of_many(pair: Pair, views: Views, scale: Scale) -> dict[str, Any]:
    """Change one endpoint of a service of thousands, several times with quiet between."""
    api, clock = pair.planes[SOURCE].admin, pair.clock
    began = clock.monotonic()
    await _offer(api, "big", 100_000, scale.big_endpoints, _ADDRESSES)
    await until(views, "big", scale.big_endpoints)
    filled = clock.monotonic() - began
    await clock.sleep(_QUIET_SECONDS)
    quiet = await _counted(pair, lambda: clock.sleep(scale.big_changes / 2))

    async def changes() -> None:
        for number in range(scale.big_changes):
            at = number * 7 % (scale.big_endpoints // _ADDRESSES)
            endpoints = _endpoints(100_000 + at * _ADDRESSES, _ADDRESSES)
            endpoints[3] = endpoint(endpoints[3]["addresses"][0], ready=False)
            await api.patch(f"{SLICES}/big-{at}", {"endpoints": endpoints})
            await clock.sleep(0.5)

    busy = await _counted(pair, changes)

    def each(what: str, name: str) -> float:
        anyway = quiet[what][name] / quiet["seconds"] * busy["seconds"]
        return float(round((busy[what][name] - anyway) / scale.big_changes, 2))

    return {
        "endpoints": scale.big_endpoints,
        "filled_in_seconds": round(filled, 1),
        "changes": scale.big_changes,
        "quiet": quiet,
        "busy": busy,
        "per_change": {
            "elements": each("elements", TARGET),
            "slices_written": busy["writes"] / scale.big_changes,
            "bytes_sent": each("bytes_sent", SOURCE),
            "cpu_ms_source": each("cpu_ms", SOURCE),
            "cpu_ms_target": each("cpu_ms", TARGET),
        },
        "load": machine.load(),
    }


async def _counted(pair: Pair, doing: Callable[[], Awaitable[object]]) -> dict[str, Any]:
    """CPU, elements committed, bytes and writes while something is done."""
    mark, before = pair.planes[TARGET].audit.end(), await _counters(pair)
    began = pair.clock.monotonic()
    await doing()
    after, spent = await _counters(pair), pair.clock.monotonic() - began
    writes = await pair.writes_since(mark)
    return {
        "seconds": round(spent, 2),
        "writes": len(writes),
        **{
            what: {name: round(after[what][name] - count, 2) for name, count in counts.items()}
            for what, counts in before.items()
        },
    }


async def _counters(pair: Pair) -> dict[str, dict[str, float]]:
    metrics = {name: await pair.metrics(name) for name in pair.agents}
    return {
        "cpu_ms": {name: 1e3 * pair.cpu_seconds(name) for name in pair.agents},
        "elements": {
            TARGET: _sum(metrics[TARGET], "replicator_changes_total", f'origin="{SOURCE}"')
        },
        "bytes_sent": {
            name: _sum(found, "replicator_session_bytes_total", 'direction="sent"')
            for name, found in metrics.items()
        },
    }


async def _first_sync(pair: Pair, views: Views, scale: Scale) -> dict[str, Any]:
    """Fill an empty cluster by an agent that never ran, while other services change."""
    source, target, clock = pair.planes[SOURCE].admin, pair.planes[TARGET].admin, pair.clock
    await pair.forget_state(TARGET)
    await _many(
        lambda i=i: _offer(  # type: ignore[misc]
            source, f"bulk-{i}", i * scale.endpoints, scale.endpoints, scale.endpoints
        )
        for i in range(scale.services)
    )
    for one in (await source.get(SLICES, {"labelSelector": f"{SERVICE_LABEL}=big"}))["items"]:
        await source.delete(f"{SLICES}/{one['metadata']['name']}")
    for one in (await target.get(SLICES))["items"]:
        await target.delete(f"{SLICES}/{one['metadata']['name']}")
    await empty(views, wanted=True)
    views.sightings = Sightings()
    running, used = True, pair.cpu_seconds(SOURCE)
    churning = asyncio.create_task(_churn(pair, views, scale, lambda: running))
    began = clock.monotonic()
    pair.agents[TARGET].launch()
    await empty(views, wanted=False)
    began_writing = clock.monotonic()
    await until(views, "live", scale.live_services * scale.live_endpoints)
    live = clock.monotonic()
    await until(views, "bulk", scale.services * scale.endpoints)
    ended = clock.monotonic()
    await clock.sleep(_QUIET_SECONDS)
    running = False
    await churning
    await pair.agents[TARGET].wait_ready()
    await clock.sleep(_QUIET_SECONDS)
    meanwhile = views.sightings.milliseconds(since=began_writing, until=ended)
    memory = {name: pair.memory(name) for name in pair.agents}
    return {
        "services": scale.services,
        "endpoints": scale.services * scale.endpoints,
        "seconds_from_launch": round(ended - began, 2),
        "seconds_from_first_slice": round(ended - began_writing, 2),
        "seconds_to_first_slice": round(began_writing - began, 2),
        "seconds_to_live_services": round(live - began, 2),
        "live_meanwhile": meanwhile,
        "live_over_delay": _over(meanwhile["from_event"]),
        "live_afterwards": views.sightings.milliseconds(since=ended),
        "lost": views.sightings.lost(),
        "cpu_seconds": {
            SOURCE: round(pair.cpu_seconds(SOURCE) - used, 2),
            TARGET: round(pair.cpu_seconds(TARGET), 2),
        },
        "memory": memory,
        "mebibytes_resident": {
            name: round(found["resident_bytes"] / 2**20, 1) for name, found in memory.items()
        },
        "load": machine.load(),
    }


async def _lateness(pair: Pair, found: list[float]) -> None:
    """How late this process wakes: a part of every time measured by it, and of the relay's."""
    while True:
        due = pair.clock.monotonic() + _PROBE_SECONDS
        await pair.clock.sleep(_PROBE_SECONDS)
        found.append(1e3 * (pair.clock.monotonic() - due))


async def _measure(scale: Scale, folder: Path) -> dict[str, Any]:
    async with Pair(folder) as pair, watching(pair) as views:
        found: dict[str, Any] = {**pair.describe()}
        found["memory_of_empty"] = {name: pair.memory(name) for name in pair.agents}
        await _offer_live(pair, views, scale)
        found["latency"] = await _latency(pair, views, scale, 0)
        found["latency_preferred"] = await _latency(pair, views, scale, _PREFERRED)
        found["one_of_many"] = await _one_of_many(pair, views, scale)
        found["first_sync"] = await _first_sync(pair, views, scale)
        return found


def measure(_: int, scale: Scale | None = None) -> dict[str, Any]:
    """Measure all of it; root is not asked for, real Kubernetes programs are (built once)."""
    with tempfile.TemporaryDirectory(prefix="replicator-bench-") as folder:
        kept = os.environ.get("REPLICATOR_BENCH_LOGS")
        return asyncio.run(_measure(scale or Scale(), Path(kept or folder)))
