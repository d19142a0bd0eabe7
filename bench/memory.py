"""(e) Memory per element: the set alone, and whole agents with and without the elements."""

from __future__ import annotations

from typing import Any

from bench import crdt
from bench.worlds import row_of, running
from replicator.demo.world import Churn

_SETTLE_SECONDS = 3.0
_PER_SERVICE = 20
_FULL, _HOLDER = "full", "holder"


def alone(count: int) -> dict[str, Any]:
    """Bytes per element of the set, by two measures, each in a process of its own."""
    return crdt.memory(count)


async def _pair(services: int, endpoints: int, seed: int) -> dict[str, Any]:
    churns = {
        _FULL: Churn(services, endpoints, 0.0, seed, 0.0),
        _HOLDER: Churn(1, 1, 0.0, seed, 0.0),
    }
    async with running(churns, direct=True) as world:
        began = world.clock.monotonic()
        while True:
            held = row_of(await world.status(_HOLDER), _FULL)["elements"]
            if held >= services * endpoints:
                break
            world.check_alive()
            if world.clock.monotonic() - began > 60.0:  # noqa: PLR2004
                message = f"only {held} elements arrived within a minute"
                raise RuntimeError(message)
            await world.clock.sleep(0.2)
        await world.clock.sleep(_SETTLE_SECONDS)
        status = await world.status(_HOLDER)
        return {
            "elements": row_of(status, _FULL)["elements"],
            "source_resident": world.usage(_FULL).resident_bytes,
            "receiver_resident": world.usage(_HOLDER).resident_bytes,
        }


async def agents(count: int, seed: int) -> dict[str, Any]:
    """Resident bytes of agents with ``count`` elements against nearly empty ones."""
    empty = await _pair(1, 1, seed)
    full = await _pair(count // _PER_SERVICE, _PER_SERVICE, seed)
    more = full["elements"] - empty["elements"]

    def each(which: str) -> float:
        return round(float(full[which] - empty[which]) / more, 1)

    return {
        "empty": empty,
        "full": full,
        "source_bytes_per_element": each("source_resident"),
        "receiver_bytes_per_element": each("receiver_resident"),
    }
