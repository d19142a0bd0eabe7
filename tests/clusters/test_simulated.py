"""The simulated cluster: one history a seed, smooth, and as strict as an API server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from clusters.addresses import canonical, numeric_key
from clusters.errors import WriteError
from clusters.model import ChangeOp, Endpoint, LocalService, ServiceKey, SliceChange
from clusters.simulated import SimulatedCluster
from clusters.slices import SliceSettings, plan
from tests.support.clock import FakeClock

CART = ServiceKey("shop", "cart")
Trace = list[tuple[float, ServiceKey, LocalService]]


def made(clock: FakeClock | None = None, **settings: Any) -> SimulatedCluster:
    """A cluster of ten services with four endpoints each, and ten changes a second."""
    whole: dict[str, Any] = {
        "cluster": "fjord",
        "seed": 7,
        "services": 10,
        "endpoints": 4,
        "churn": 10.0,
        **settings,
    }
    return SimulatedCluster(clock=clock or FakeClock(), **whole)


@asynccontextmanager
async def running(cluster: SimulatedCluster, clock: FakeClock) -> AsyncIterator[Trace]:
    """What the cluster announces, when, and what it then says."""
    trace: Trace = []

    def announced(key: ServiceKey) -> None:
        trace.append((round(clock.monotonic(), 6), key, cluster.local(key)))

    task = asyncio.create_task(cluster.run(announced, announced))
    try:
        await clock.settle()
        yield trace
    finally:
        task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(outcome, asyncio.CancelledError)


async def history(seconds: float, step: float | None = None, **settings: Any) -> Trace:
    clock = FakeClock()
    async with running(made(clock, **settings), clock) as trace:
        if step is None:
            await clock.run_for(seconds)
        else:
            for _ in range(round(seconds / step)):
                clock.advance(step)
                await clock.settle()
        return trace


# ---- the history -------------------------------------------------------------------------------


async def test_the_same_seed_gives_the_same_history() -> None:
    first = await history(30)
    assert first == await history(30)
    assert len(first) > 200
    assert first != await history(30, seed=8)
    assert first != await history(30, cluster="mesa")


async def test_a_late_clock_changes_times_but_not_what_happens() -> None:
    exact, late = await history(20), await history(20, step=0.5)
    shared = min(len(exact), len(late))
    assert shared > 150
    assert [key for _, key, _ in exact[:shared]] == [key for _, key, _ in late[:shared]]


async def test_without_churn_nothing_happens() -> None:
    clock = FakeClock()
    cluster = made(clock, churn=0.0)
    before = {key: cluster.local(key) for key in cluster.services()}
    async with running(cluster, clock) as trace:
        await clock.run_for(86_400)
        assert trace == []
    assert before == {key: cluster.local(key) for key in cluster.services()}
    assert cluster.health().counters == {"simulated_changes_total": 0}
    assert made(services=0).services() == frozenset()
    assert await history(10, services=0) == []


async def test_changes_come_at_their_rate_and_not_in_bursts() -> None:
    times = [time for time, _, _ in await history(100, churn=50.0)]
    assert 4700 <= len(times) <= 5300
    a_second = Counter(int(time) for time in times)
    assert min(a_second.values()) > 20
    assert max(a_second.values()) < 90
    assert max(after - before for before, after in pairwise(times)) < 0.5


async def test_after_a_pause_little_is_made_up_for() -> None:
    clock = FakeClock()
    async with running(made(clock, churn=100.0), clock) as trace:
        await clock.run_for(1)
        regular = len(trace)
        clock.advance(3600)
        await clock.settle(200)
        assert len(trace) - regular < 500
        before = len(trace)
        await clock.run_for(10)
        assert 800 < len(trace) - before < 1400


async def test_very_fast_changes_let_others_run() -> None:
    clock = FakeClock()
    async with running(made(clock, churn=1e6), clock) as trace:
        clock.advance(1)
        for _ in range(3):
            before = len(trace)
            await asyncio.sleep(0)
            assert len(trace) - before <= 200
        assert trace


async def test_changes_end_after_their_time() -> None:
    clock = FakeClock()
    cluster = made(clock, duration=5.0)
    async with running(cluster, clock) as trace:
        await clock.run_for(60)
    assert trace
    assert max(time for time, _, _ in trace) <= 1005.0
    assert 20 < len(trace) == cluster.changes_made < 90
    assert await history(1000, churn=0.01, duration=5.0, seed=3) == []


async def test_every_change_is_a_change_and_of_each_kind() -> None:
    clock = FakeClock()
    cluster = made(clock)
    last = {key: cluster.local(key) for key in cluster.services()}
    kinds: Counter[str] = Counter()
    async with running(cluster, clock) as trace:
        await clock.run_for(60)
    for _, key, now in trace:
        before, after = ({one.identity for one in state.endpoints} for state in (last[key], now))
        assert last[key] != now
        assert len(before ^ after) <= 1
        kinds["came" if after - before else "went" if before - after else "changed"] += 1
        last[key] = now
        assert 1 <= len(now.endpoints) <= 5
    assert min(kinds["came"], kinds["went"], kinds["changed"]) > 50


async def test_endpoints_come_also_where_none_were() -> None:
    trace = await history(30, endpoints=0)
    assert all(row[2].endpoints for row in trace)


# ---- what it says ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_addresses_are_unique_and_in_order(seed: int) -> None:
    cluster = made(seed=seed, services=30, endpoints=20)
    for _ in range(3000):
        cluster.step()
    states = [cluster.local(key) for key in sorted(cluster.services())]
    assert len(states) == 30
    addresses = [one.address for state in states for one in state.endpoints]
    assert len(set(addresses)) == len(addresses)
    for state in states:
        assert state.export is not None
        numbers = [numeric_key(one.address) for one in state.endpoints]
        assert numbers == sorted(numbers)
        assert all(canonical(one.address, one.family) == one.address for one in state.endpoints)


def test_a_hundred_thousand_endpoints_have_addresses_of_their_own() -> None:
    cluster = made(services=100, endpoints=1000)
    found = {one.address for key in cluster.services() for one in cluster.local(key).endpoints}
    assert len(found) == 100_000


async def test_it_is_synced_and_its_uid_is_its_name() -> None:
    cluster = made()
    await asyncio.wait_for(cluster.wait_synced(), 1)
    assert cluster.health().synced
    assert await cluster.uid() == await made(seed=8, services=1).uid()
    assert await cluster.uid() != await made(cluster="mesa").uid()
    assert cluster.local(ServiceKey("no", "where")) == LocalService(ServiceKey("no", "where"))


# ---- what is written to it ---------------------------------------------------------------------


def planned(cluster: SimulatedCluster, *addresses: str) -> SliceChange:
    remote = {"mesa": [Endpoint(one, None) for one in addresses]} if addresses else {}
    observed = cluster.owned(CART)
    (change,) = plan(CART, remote, observed, settings=SliceSettings(), deletable=lambda _: True)
    return change


async def refused(cluster: SimulatedCluster, op: ChangeOp, manifest: Any) -> WriteError:
    before = cluster.stored("EndpointSlice")
    with pytest.raises(WriteError) as caught:
        await cluster.apply(SliceChange(op, manifest))
    assert cluster.stored("EndpointSlice") == before
    return caught.value


async def test_it_refuses_what_an_api_server_refuses() -> None:
    cluster = made()
    manifest = planned(cluster, "10.40.1.1").manifest
    ports = [{"name": f"p{number}", "port": number} for number in range(1, 102)]
    endpoints = [{"addresses": ["10.40.1.1"]}] * 1001
    for wrong, text in (
        ({**manifest, "ports": ports}, "more than 100 ports"),
        ({**manifest, "endpoints": endpoints}, "more than 1000 endpoints"),
        ({**manifest, "metadata": {**manifest["metadata"], "name": "No Name"}}, "not a DNS name"),
    ):
        error = await refused(cluster, ChangeOp.CREATE, wrong)
        assert (error.code, error.retryable) == ("invalid", False)
        assert text in error.message
    await cluster.apply(SliceChange(ChangeOp.CREATE, manifest))
    (stored,) = cluster.owned(CART)
    error = await refused(cluster, ChangeOp.UPDATE, {**stored, "addressType": "IPv6"})
    assert (error.code, error.retryable) == ("invalid", False)
    assert "immutable" in error.message


async def test_an_update_of_what_has_changed_is_a_conflict() -> None:
    cluster = made()
    change = planned(cluster, "10.40.1.1")
    error = await refused(cluster, ChangeOp.UPDATE, change.manifest)
    assert (error.code, error.retryable) == ("conflict", True)
    await cluster.apply(change)
    late = planned(cluster, "10.40.1.1", "10.40.1.2")
    await cluster.apply(planned(cluster, "10.40.1.3"))
    assert (await refused(cluster, ChangeOp.UPDATE, late.manifest)).code == "conflict"
    successor = {**late.manifest["metadata"], "uid": "another"}
    replaced = {**late.manifest, "metadata": successor}
    assert (await refused(cluster, ChangeOp.UPDATE, replaced)).code == "conflict"
    await cluster.apply(SliceChange(ChangeOp.DELETE, replaced))
    assert cluster.owned(CART), "a successor is not what was to be deleted"


async def test_a_test_may_refuse_what_it_likes() -> None:
    cluster = made()
    change = planned(cluster, "10.40.1.1")
    cluster.refuse = lambda _: WriteError("not today", code="quota", retryable=True)
    assert (await refused(cluster, ChangeOp.CREATE, change.manifest)).code == "quota"
    cluster.refuse = lambda _: None
    await cluster.apply(change)
    assert cluster.owned_services() == {CART}


async def test_writes_are_seen_also_before_it_runs() -> None:
    clock = FakeClock()
    cluster = made(clock, churn=0.0)
    await cluster.apply(planned(cluster, "10.40.1.1"))
    async with running(cluster, clock) as trace:
        assert trace == []
        await cluster.apply(planned(cluster, "10.40.1.2"))
        await cluster.apply(planned(cluster))
        assert [key for _, key, _ in trace] == [CART, CART]
    cluster.remove("EndpointSlice", "shop", "never was")


async def test_a_generated_service_is_what_was_generated() -> None:
    cluster = made(churn=0.0)
    before = cluster.local(CART)
    labels = {"kubernetes.io/service-name": "cart"}
    metadata = {"name": "cart-aa1", "namespace": "shop", "labels": labels}
    cluster.put({"kind": "EndpointSlice", "metadata": metadata, "addressType": "IPv4"})
    assert cluster.local(CART) == before
    clock_age = cluster.health().resources[0].last_event_age
    assert clock_age == 0.0
