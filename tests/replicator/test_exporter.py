"""The exporter: complete before the first word, level-based after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import structlog

from clusters.errors import ManifestError
from clusters.model import LocalService, ServiceKey, Skipped
from clusters.simulated import SimulatedCluster
from clusters.work_queue import WorkQueue
from crdt import Origin, OriginSet, StampClock
from replicator.exporter import Exporter
from replicator.own_origin import OwnOrigin
from replicator.projection import ClusterInfo, cluster_element
from tests.support.clock import FakeClock
from tests.support.signers import FakeSigner

ABOUT = cluster_element("fjord", ClusterInfo("north", "uid", "1.0"))


class Stubborn(SimulatedCluster):
    """A simulated cluster some of whose answers are scripted."""

    answers: dict[ServiceKey, LocalService | ManifestError]

    def local(self, key: ServiceKey) -> LocalService:
        answer = self.answers.get(key)
        if isinstance(answer, ManifestError):
            raise answer
        return super().local(key) if answer is None else answer


class Bed:
    """An exporter over a simulated cluster."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.cluster = Stubborn(
            cluster="fjord", seed=1, services=3, endpoints=4, churn=0.0, clock=self.clock
        )
        self.cluster.answers = {}
        self.own = OwnOrigin(
            Origin("fjord"),
            FakeSigner("fjord"),
            epoch=1,
            clock=StampClock(),
            elements=OriginSet(),
        )
        self.queue: WorkQueue[ServiceKey] = WorkQueue(self.clock)
        self.calls = 0
        self.exporter = Exporter(self.cluster, self.own, self.queue, self.clock, self._changed)

    def _changed(self) -> None:
        self.calls += 1


@pytest.fixture
async def bed() -> AsyncIterator[Bed]:
    made = Bed()
    task = asyncio.create_task(made.exporter.run())
    await made.exporter.synced.wait()
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_everything_is_stated_before_synced(bed: Bed) -> None:
    assert bed.own.stated_services == bed.cluster.services()
    assert bed.exporter.changes == 3 * (4 + 1)


async def test_a_touched_service_is_stated_anew_and_an_unchanged_one_costs_nothing(
    bed: Bed,
) -> None:
    calls = bed.calls
    key = bed.cluster.step()
    bed.queue.add(key)
    await bed.clock.settle()
    assert bed.calls == calls + 1
    bed.queue.add(key)
    await bed.clock.settle()
    assert bed.calls == calls + 1
    assert bed.queue.idle


async def test_a_service_that_cannot_be_read_keeps_what_it_had(bed: Bed) -> None:
    key = min(bed.cluster.services())
    bed.cluster.answers[key] = ManifestError("broken")
    changes = bed.exporter.changes
    bed.queue.add(key)
    await bed.clock.settle()
    assert bed.exporter.changes == changes
    assert key in bed.own.stated_services


async def test_what_is_left_out_is_counted_by_reason(bed: Bed) -> None:
    key = min(bed.cluster.services())
    skipped = (Skipped("fqdn", "EndpointSlice/shop/a"), Skipped("fqdn", "EndpointSlice/shop/b"))
    bed.cluster.answers[key] = LocalService(key, skipped=skipped)
    bed.queue.add(key)
    await bed.clock.settle()
    assert bed.exporter.skipped_by_reason() == {"fqdn": 2}
    del bed.cluster.answers[key]
    bed.queue.add(key)
    await bed.clock.settle()
    assert bed.exporter.skipped_by_reason() == {}


async def test_a_service_that_vanished_while_we_were_away_is_removed_at_the_start() -> None:
    bed = Bed()
    stated = {b"\x93\x02\xa5fjord\xa1x": b"\x92\xc0\x80"}
    bed.own.state(ServiceKey("shop", "gone"), stated, 5)
    task = asyncio.create_task(bed.exporter.run())
    await bed.exporter.synced.wait()
    assert ServiceKey("shop", "gone") not in bed.own.stated_services
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Lagging(Stubborn):
    """A cluster that is read anew when the test says so."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(cluster="fjord", seed=1, services=3, endpoints=4, churn=0.0, clock=clock)
        self.answers = {}
        self.asked = 0
        self.read = asyncio.Event()

    async def reread(self) -> None:
        self.asked += 1
        await self.read.wait()


@pytest.fixture
async def lagging() -> AsyncIterator[Bed]:
    made = Bed()
    made.cluster = Lagging(made.clock)
    made.exporter = Exporter(
        made.cluster, made.own, made.queue, made.clock, made._changed, dict([ABOUT])
    )
    task = asyncio.create_task(made.exporter.run())
    await made.exporter.synced.wait()
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_each_term_begins_with_all_of_the_cluster_read_anew(lagging: Bed) -> None:
    cluster = lagging.cluster
    assert isinstance(cluster, Lagging)
    assert cluster.asked == 0, "what was listed at the start is new enough"
    key = min(cluster.services())
    for term in (1, 2):
        lagging.exporter.begin()
        assert not lagging.exporter.synced.is_set()
        await lagging.clock.settle()
        assert cluster.asked == term
        assert not lagging.exporter.synced.is_set()
        cluster.answers[key] = LocalService(key)
        calls = lagging.calls
        cluster.read.set()
        await lagging.clock.settle()
        assert lagging.exporter.synced.is_set()
        assert lagging.calls > calls, "whoever publishes has to look again"
        assert key not in lagging.own.stated_services
        cluster.read.clear()


async def test_a_term_that_begins_while_one_is_read_in_is_read_in_itself(lagging: Bed) -> None:
    cluster = lagging.cluster
    assert isinstance(cluster, Lagging)
    lagging.exporter.begin()
    await lagging.clock.settle()
    lagging.exporter.begin()
    cluster.read.set()
    await lagging.clock.settle()
    assert cluster.asked == 2
    assert lagging.exporter.synced.is_set()


async def test_a_cluster_that_cannot_be_read_anew_is_taken_as_its_watch_left_it(
    lagging: Bed,
) -> None:
    lagging.exporter.begin()
    await lagging.clock.run_for(9.9)
    assert not lagging.exporter.synced.is_set()
    with structlog.testing.capture_logs() as logs:
        await lagging.clock.run_for(0.2)
    assert lagging.exporter.synced.is_set()
    assert [one["event"] for one in logs] == ["source_not_read_anew"]


async def test_what_the_cluster_is_itself_is_stated_with_its_services(lagging: Bed) -> None:
    batch = lagging.own.seal(lagging.clock.wall_ns())
    assert ABOUT[0] in [entry[0] for entry in batch.entries]
