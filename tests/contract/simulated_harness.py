"""The simulated cluster for the contract suite: it generates nothing, users put everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from clusters.model import ServiceKey
from clusters.simulated import SimulatedCluster
from tests.integration.scripted_api import eventually
from tests.support.clock import FakeClock


class SimulatedHarness:
    """One running cluster with its keys as announced."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster(
            cluster="fjord", seed=1, services=0, endpoints=0, churn=0.0, clock=FakeClock()
        )
        self.local_keys: list[ServiceKey] = []
        self.owned_keys: list[ServiceKey] = []

    async def put(self, manifest: dict[str, Any]) -> None:
        """Create or replace an object as a user of the cluster."""
        self.cluster.put(manifest)

    async def remove(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object as a user of the cluster."""
        self.cluster.remove(kind, namespace, name)

    async def stored(self, kind: str = "EndpointSlice") -> list[dict[str, Any]]:
        """All objects of a kind as the cluster holds them."""
        return self.cluster.stored(kind)

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait until the cluster has followed; no time passes on its clock."""
        await eventually(condition, what)


@asynccontextmanager
async def simulated() -> AsyncIterator[SimulatedHarness]:
    """A running, empty, synced cluster."""
    harness = SimulatedHarness()
    run = harness.cluster.run(harness.local_keys.append, harness.owned_keys.append)
    task = asyncio.create_task(run)
    try:
        await harness.cluster.wait_synced()
        await asyncio.sleep(0)
        yield harness
    finally:
        ended = task.done()
        task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        assert not ended, f"run() ended by itself: {outcome!r}"
        assert isinstance(outcome, asyncio.CancelledError)
