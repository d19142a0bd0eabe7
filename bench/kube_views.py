"""What watches of both API servers show while changes are made, with the moment of each.

A change of a live service brings an address that carries its number, so whoever sees a slice knows
which changes are in it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bench.kube_pair import SOURCE, TARGET, Pair
from bench.sightings import Sightings
from tests.e2e.kube.api import Object
from tests.e2e.objects import IMPORTED_SERVICE_LABEL, SERVICE_LABEL, SLICES, SOURCE_LABEL

_MARK = "10.9."
_LATE_SECONDS = 240.0


@dataclass(slots=True)
class Views:
    """What the watches of both API servers show of the services."""

    sightings: Sightings = field(default_factory=Sightings)
    held: dict[str, int] = field(default_factory=dict)
    """Endpoints of each slice in the second cluster, by its name."""
    totals: Counter[str] = field(default_factory=Counter)
    """The same, by what stands before the first hyphen of the service's name."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, event: Object, now: float, *, there: bool) -> None:
        """Take one event in."""
        labels = event["object"]["metadata"].get("labels") or {}
        name = labels.get(IMPORTED_SERVICE_LABEL if there else SERVICE_LABEL)
        if name is None or (SOURCE_LABEL in labels) != there:
            return
        endpoints = event["object"].get("endpoints") or ()
        for one in endpoints:
            if one["addresses"][0].startswith(_MARK):
                self.sightings.see(name, _number(one["addresses"][0]), now, there=there)
        if there:
            now_held = 0 if event["type"] == "DELETED" else len(endpoints)
            of = event["object"]["metadata"]["name"]
            self.totals[name.partition("-")[0]] += now_held - self.held.get(of, 0)
            self.held[of] = now_held
            self.changed.set()


def _number(text: str) -> int:
    _, _, high, low = text.split(".")
    return int(high) * 256 + int(low)


def address(number: int) -> str:
    """Address that says which change of its service brought it."""
    return f"{_MARK}{number // 256}.{number % 256}"


async def _follow(pair: Pair, cluster: str, version: str, views: Views) -> None:
    query = {"resourceVersion": version, "timeoutSeconds": "3600"}
    async for event in pair.planes[cluster].admin.events(SLICES, query):
        views.take(event, pair.clock.monotonic(), there=cluster == TARGET)
    message = f"the watch of cluster {cluster} ended"
    raise RuntimeError(message)


@asynccontextmanager
async def watching(pair: Pair) -> AsyncIterator[Views]:
    """Follow the slices of both clusters while the block runs."""
    views, tasks = Views(), []
    for cluster in (SOURCE, TARGET):
        listed = await pair.planes[cluster].admin.get(SLICES)
        version = listed["metadata"]["resourceVersion"]
        tasks.append(asyncio.create_task(_follow(pair, cluster, version, views)))
    try:
        yield views
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(views: Views, group: str, wanted: int) -> None:
    """Wait until the second cluster holds so many endpoints of a group of services."""
    async with asyncio.timeout(_LATE_SECONDS):
        while views.totals[group] != wanted:
            views.changed.clear()
            await views.changed.wait()


async def empty(views: Views, *, wanted: bool) -> None:
    """Wait until the second cluster holds nothing, or (not ``wanted``) anything."""
    async with asyncio.timeout(_LATE_SECONDS):
        while any(views.totals.values()) == wanted:
            views.changed.clear()
            await views.changed.wait()
