"""(d) Bytes per change and of a quiet link.

These are WebSocket message bytes as the agents count them: what TLS and TCP add (about 22 bytes a
record, 52 a packet) is not in them.
"""

from __future__ import annotations

from typing import Any

from bench import throughput
from bench.worlds import counter, running
from replicator.demo.regions import REGIONS
from replicator.demo.world import Churn

_WARM_SECONDS = 3.0
_STEADY_RATE = 5000.0
_LONE_RATE = 2.0


async def _all_links(rate: float, seconds: float, seed: int) -> dict[str, Any]:
    """Bytes on all ten links of five regions while only the first one changes."""
    churns = {region: Churn(20, 10, 0.0, seed, 0.0) for region in REGIONS}
    writer = REGIONS[0]
    churns[writer] = Churn(20, 10, rate, seed, 0.0)
    async with running(churns, direct=False) as world:
        await world.clock.sleep(_WARM_SECONDS)
        began, before = world.clock.monotonic(), await world.link_bytes()
        events = counter(await world.status(writer))
        await world.clock.sleep(seconds)
        spent, after = world.clock.monotonic() - began, await world.link_bytes()
        events = counter(await world.status(writer)) - events
    sent = {f"{a} > {b}": after[a, b] - before[a, b] for a, b in after}
    return {
        "seconds": round(spent, 3),
        "source_events": events,
        "bytes": sum(sent.values()),
        "bytes_sent": sent,
    }


async def idle(seconds: float, seed: int) -> dict[str, Any]:
    """Nothing changes: beats and signed freshness of five origins."""
    found = await _all_links(0.0, seconds, seed)
    links = len(found["bytes_sent"]) / 2
    rate = found["bytes"] / found["seconds"] / links
    return found | {"links": int(links), "bytes_per_second_per_link": round(rate, 1)}


async def lone(seconds: float, seed: int, quiet: dict[str, Any]) -> dict[str, Any]:
    """One region changes now and then; what ``quiet`` links send anyway is taken off."""
    found = await _all_links(_LONE_RATE, seconds, seed)
    anyway = quiet["bytes"] / quiet["seconds"] * found["seconds"]
    each = (found["bytes"] - anyway) / max(1, found["source_events"])
    return found | {"bytes_per_change": round(each, 1)}


async def steady(seconds: float, seed: int) -> dict[str, Any]:
    """A link on which thousands of changes a second pass in batches."""
    return await throughput.stream(1000, 20, _STEADY_RATE, seconds, seed)
