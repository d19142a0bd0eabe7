"""The importer: what it writes, what it waits for, and what it never deletes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from clusters.errors import ClusterUnavailableError, NamespaceUnavailableError, WriteError
from clusters.model import Endpoint, Port, ServiceKey, SliceChange
from clusters.simulated import SimulatedCluster
from clusters.work_queue import WorkQueue
from replicator.importer import Importer
from tests.support.clock import FakeClock

CART = ServiceKey("shop", "cart")


class Bed:
    """An importer over a simulated cluster whose refusals are scripted."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.cluster = SimulatedCluster(
            cluster="mesa", seed=1, services=1, endpoints=1, churn=0.0, clock=self.clock
        )
        self.view: dict[str, list[Endpoint]] = {}
        self.known = {"fjord"}
        self.queue: WorkQueue[ServiceKey] = WorkQueue(self.clock)
        self.importer = Importer(
            self.cluster, self.queue, lambda _: self.view, self.known.__contains__, self.clock
        )

    def offer(self, *addresses: str, cluster: str = "fjord") -> None:
        self.view[cluster] = [Endpoint(a, (Port("http", 8080),)) for a in addresses]

    @property
    def written(self) -> list[str]:
        slices = self.cluster.owned(CART)
        return [a for s in slices for e in s["endpoints"] for a in e["addresses"]]

    async def settle(self) -> None:
        self.queue.add(CART)
        for _ in range(20):
            await self.clock.settle()


@pytest.fixture
async def bed() -> AsyncIterator[Bed]:
    made = Bed()
    running = [
        asyncio.create_task(made.cluster.run(lambda _: None, made.queue.add)),
        asyncio.create_task(made.importer.run()),
    ]
    yield made
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_what_is_offered_is_written_once(bed: Bed) -> None:
    bed.offer("10.20.1.4", "10.20.1.5")
    await bed.settle()
    assert bed.written == ["10.20.1.4", "10.20.1.5"]
    await bed.settle()
    assert bed.importer.counters() == {'materialize_writes_total{operation="create"}': 1}


async def test_nothing_of_a_cluster_is_deleted_before_its_state_is_known(bed: Bed) -> None:
    bed.offer("10.20.1.4")
    await bed.settle()
    bed.view.clear()
    bed.known.clear()
    await bed.settle()
    assert bed.written == ["10.20.1.4"]
    bed.known.add("fjord")
    await bed.settle()
    assert bed.written == []


async def test_a_missing_namespace_is_waited_for_and_not_retried(bed: Bed) -> None:
    calls = []

    def refuse(change: SliceChange) -> Exception | None:
        calls.append(change)
        return NamespaceUnavailableError("no namespace shop")

    bed.cluster.refuse = refuse  # type: ignore[assignment]
    bed.offer("10.20.1.4")
    await bed.settle()
    await bed.clock.run_for(60.0)
    assert len(calls) == 1
    assert bed.importer.waiting == {CART: "namespace_unavailable"}
    bed.cluster.refuse = lambda _: None
    await bed.settle()
    assert bed.written == ["10.20.1.4"]
    assert bed.importer.waiting == {}


async def test_an_unavailable_cluster_is_tried_again_after_a_back_off(bed: Bed) -> None:
    refusals = [ClusterUnavailableError("down"), ClusterUnavailableError("down")]
    bed.cluster.refuse = lambda _: refusals.pop() if refusals else None  # type: ignore[assignment, return-value]
    bed.offer("10.20.1.4")
    await bed.settle()
    assert bed.importer.failing == {CART: "down"}
    await bed.clock.run_for(1.0)
    assert bed.written == ["10.20.1.4"]
    assert bed.importer.failing == {}


async def test_one_refused_object_does_not_stop_the_others(bed: Bed) -> None:
    def refuse(change: SliceChange) -> WriteError | None:
        if "fjord" in str(change.manifest):
            return WriteError("invalid", code="refused", retryable=False)
        return None

    bed.cluster.refuse = refuse
    bed.offer("10.20.1.4")
    bed.offer("10.40.1.4", cluster="tundra")
    await bed.settle()
    assert bed.written == ["10.40.1.4"]
    assert bed.importer.failing == {CART: "invalid"}
    assert bed.importer.counters()['materialize_errors_total{reason="refused"}'] == 1
    await bed.clock.run_for(60.0)
    assert bed.importer.counters()['materialize_errors_total{reason="refused"}'] == 1


async def test_a_conflict_is_planned_again_from_what_is_there(bed: Bed) -> None:
    refusals = [WriteError("conflict", code="conflict", retryable=True)]
    bed.cluster.refuse = lambda _: refusals.pop() if refusals else None
    bed.offer("10.20.1.4")
    await bed.settle()
    await bed.clock.run_for(1.0)
    assert bed.written == ["10.20.1.4"]
