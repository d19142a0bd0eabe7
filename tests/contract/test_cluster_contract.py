"""What every cluster does: run on folders, on the simulation, and on Kubernetes over HTTP."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import CoroutineType
from typing import Any, Protocol

import pytest

from clusters.base import Cluster
from clusters.errors import WriteError
from clusters.model import ChangeOp, Endpoint, LocalService, Port, ServiceKey, SliceChange
from clusters.slice_names import LABEL_MANAGED_BY, LABEL_SERVICE, LABEL_SOURCE_CLUSTER
from clusters.slices import SliceSettings, plan
from tests.contract.directory_harness import directory
from tests.contract.kubernetes_harness import kubernetes
from tests.contract.simulated_harness import simulated
from tests.integration.scripted_api import eventually

CART = ServiceKey("shop", "cart")
LEDGER = ServiceKey("shop", "ledger")
HTTP = (Port("http", 8080),)


class Harness(Protocol):
    """A running cluster, and its users."""

    @property
    def cluster(self) -> Cluster: ...
    @property
    def local_keys(self) -> list[ServiceKey]: ...
    @property
    def owned_keys(self) -> list[ServiceKey]: ...
    async def put(self, manifest: dict[str, Any]) -> None: ...
    async def remove(self, kind: str, namespace: str, name: str) -> None: ...
    async def stored(self, kind: str = "EndpointSlice") -> list[dict[str, Any]]: ...
    async def until(self, condition: Callable[[], object]) -> None: ...


Make = Callable[[], AbstractAsyncContextManager[Harness]]


@pytest.fixture(params=[directory, simulated, kubernetes])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


@pytest.fixture
async def stage(make: Make) -> AsyncIterator[Harness]:
    async with make() as harness:
        yield harness


def users_slice(*addresses: str, name: str = "cart-aa1", service: str = "cart") -> dict[str, Any]:
    """A slice as a user, or a controller, of the cluster states it."""
    labels = {"kubernetes.io/service-name": service}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "shop", "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [one], "conditions": {"ready": True}} for one in addresses],
    }


def planned(stage: Harness, *addresses: str, key: ServiceKey = CART) -> list[SliceChange]:
    """The writes after which the service has exactly these endpoints of cluster mesa."""
    remote = {"mesa": [Endpoint(address, HTTP) for address in addresses]} if addresses else {}
    observed = stage.cluster.owned(key)
    return plan(key, remote, observed, settings=SliceSettings(), deletable=lambda _: True)


async def write(stage: Harness, *addresses: str, key: ServiceKey = CART) -> list[SliceChange]:
    """Carry out those writes and wait until they are seen and announced."""
    stage.owned_keys.clear()
    changes = planned(stage, *addresses, key=key)
    for change in changes:
        await stage.cluster.apply(change)
    await stage.until(lambda: key in stage.owned_keys and not planned(stage, *addresses, key=key))
    return changes


def addresses_of(stage: Harness, key: ServiceKey = CART) -> list[str]:
    return [endpoint.address for endpoint in stage.cluster.local(key).endpoints]


def written_addresses(stage: Harness, key: ServiceKey = CART) -> list[str]:
    found = (endpoint for one in stage.cluster.owned(key) for endpoint in one["endpoints"])
    return sorted(address for endpoint in found for address in endpoint["addresses"])


def without_versions(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = copy.deepcopy(manifests)
    for manifest in found:
        for field in ("uid", "resourceVersion", "creationTimestamp", "generation"):
            manifest["metadata"].pop(field, None)
    return found


# ---- the beginning and the end -----------------------------------------------------------------


async def test_an_empty_cluster_is_synced_and_says_nothing(stage: Harness) -> None:
    await asyncio.wait_for(stage.cluster.wait_synced(), 5)
    health = stage.cluster.health()
    assert health.synced
    assert health.resources
    assert [one.error for one in health.resources if one.error] == []
    assert stage.cluster.services() == frozenset()
    assert stage.cluster.owned_services() == frozenset()
    assert stage.cluster.local(CART) == LocalService(CART)
    assert stage.cluster.owned(CART) == ()


async def test_the_uid_stays(stage: Harness) -> None:
    uid = await stage.cluster.uid()
    assert uid
    await stage.put(users_slice("10.20.1.1"))
    assert await stage.cluster.uid() == uid


async def test_what_is_there_is_known_once_all_was_read_anew(stage: Harness) -> None:
    await asyncio.wait_for(stage.cluster.wait_synced(), 5)
    await stage.put(users_slice("10.20.1.1"))
    await asyncio.wait_for(stage.cluster.reread(), 5)
    assert addresses_of(stage) == ["10.20.1.1"]
    await asyncio.wait_for(asyncio.gather(stage.cluster.reread(), stage.cluster.reread()), 5)
    assert addresses_of(stage) == ["10.20.1.1"]


def cluster_tasks() -> list[str]:
    """Running tasks of the clusters' own code; what stands for an API server has others."""
    coroutines = (task.get_coro() for task in asyncio.all_tasks())
    return [
        coroutine.__qualname__
        for coroutine in coroutines
        if isinstance(coroutine, CoroutineType)
        and "clusters" in Path(coroutine.cr_code.co_filename).parent.parts
    ]


async def test_a_cancelled_run_leaves_nothing_behind(make: Make) -> None:
    async with asyncio.timeout(10):
        async with make() as stage:
            await stage.put(users_slice("10.20.1.1"))
            await stage.until(lambda: addresses_of(stage) == ["10.20.1.1"])
            assert cluster_tasks()
        await eventually(lambda: not cluster_tasks(), "tasks are left")


# ---- what the cluster itself says --------------------------------------------------------------


async def test_a_change_is_seen_and_announced(stage: Harness) -> None:
    await stage.put(users_slice("10.20.1.1", "10.20.1.2"))
    await stage.until(lambda: addresses_of(stage) == ["10.20.1.1", "10.20.1.2"])
    await stage.until(lambda: CART in stage.local_keys)
    assert CART in stage.cluster.services()
    assert stage.cluster.local(CART).export is not None

    stage.local_keys.clear()
    await stage.put(users_slice("10.20.1.2", "10.20.1.3"))
    await stage.until(lambda: addresses_of(stage) == ["10.20.1.2", "10.20.1.3"])
    await stage.until(lambda: CART in stage.local_keys)


async def test_a_change_of_readiness_is_seen_and_announced(stage: Harness) -> None:
    manifest = users_slice("10.20.1.1")
    await stage.put(manifest)
    await stage.until(lambda: addresses_of(stage) == ["10.20.1.1"])
    stage.local_keys.clear()
    manifest["endpoints"][0]["conditions"] = {"ready": False, "serving": True, "terminating": True}
    await stage.put(manifest)
    await stage.until(lambda: CART in stage.local_keys)
    (endpoint,) = stage.cluster.local(CART).endpoints
    assert (endpoint.ready, endpoint.serving, endpoint.terminating) == (False, True, True)


async def test_a_removal_is_seen_and_announced(stage: Harness) -> None:
    await stage.put(users_slice("10.20.1.1"))
    await stage.put(users_slice("10.20.1.2", name="cart-bb2"))
    await stage.until(lambda: addresses_of(stage) == ["10.20.1.1", "10.20.1.2"])
    stage.local_keys.clear()
    await stage.remove("EndpointSlice", "shop", "cart-aa1")
    await stage.until(lambda: addresses_of(stage) == ["10.20.1.2"])
    await stage.until(lambda: CART in stage.local_keys)

    stage.local_keys.clear()
    await stage.remove("EndpointSlice", "shop", "cart-bb2")
    await stage.until(lambda: CART not in stage.cluster.services())
    await stage.until(lambda: CART in stage.local_keys)
    assert addresses_of(stage) == []


async def test_services_do_not_touch_each_other(stage: Harness) -> None:
    await stage.put(users_slice("10.20.1.1"))
    await stage.until(lambda: addresses_of(stage) == ["10.20.1.1"])
    stage.local_keys.clear()
    await stage.put(users_slice("10.20.2.1", name="ledger-aa1", service="ledger"))
    await stage.until(lambda: addresses_of(stage, LEDGER) == ["10.20.2.1"])
    await stage.until(lambda: LEDGER in stage.local_keys)
    assert CART not in stage.local_keys
    assert addresses_of(stage) == ["10.20.1.1"]


# ---- what we write -----------------------------------------------------------------------------


async def test_what_is_written_is_observed_and_announced(stage: Harness) -> None:
    created = await write(stage, "10.40.1.1")
    assert [change.op for change in created] == [ChangeOp.CREATE]
    assert stage.cluster.owned_services() == {CART}
    assert written_addresses(stage) == ["10.40.1.1"]
    assert len(await stage.stored()) == 1

    updated = await write(stage, "10.40.1.1", "10.40.1.2")
    assert [change.op for change in updated] == [ChangeOp.UPDATE]
    assert written_addresses(stage) == ["10.40.1.1", "10.40.1.2"]
    assert len(await stage.stored()) == 1

    deleted = await write(stage)
    assert [change.op for change in deleted] == [ChangeOp.DELETE]
    assert stage.cluster.owned(CART) == ()
    assert stage.cluster.owned_services() == frozenset()
    assert await stage.stored() == []


async def test_many_services_are_written_at_once(stage: Harness) -> None:
    keys = [ServiceKey("shop", f"many-{number}") for number in range(20)]
    changes = [planned(stage, "10.40.1.1", key=key) for key in keys]
    await asyncio.gather(*(stage.cluster.apply(change) for (change,) in changes))
    await stage.until(lambda: stage.cluster.owned_services() == set(keys))
    await stage.until(lambda: set(stage.owned_keys) == set(keys))
    deletes = [planned(stage, key=key) for key in keys]
    await asyncio.gather(*(stage.cluster.apply(change) for (change,) in deletes))
    await stage.until(lambda: not stage.cluster.owned_services())
    assert await stage.stored() == []


async def test_creating_what_exists_and_is_ours_is_a_success(stage: Harness) -> None:
    (change,) = planned(stage, "10.40.1.1")
    await stage.cluster.apply(change)
    await stage.cluster.apply(change)
    await stage.until(lambda: not planned(stage, "10.40.1.1"))
    assert len(await stage.stored()) == 1


async def test_deleting_what_is_gone_is_a_success(stage: Harness) -> None:
    await write(stage, "10.40.1.1")
    (change,) = planned(stage)
    await stage.cluster.apply(change)
    await stage.cluster.apply(change)
    await stage.until(lambda: stage.cluster.owned(CART) == ())
    assert await stage.stored() == []


# ---- what is not ours --------------------------------------------------------------------------


async def test_a_users_object_is_never_owned_nor_touched(stage: Harness) -> None:
    await stage.put(users_slice("10.20.1.1"))
    await stage.until(lambda: addresses_of(stage) == ["10.20.1.1"])
    before = without_versions(await stage.stored())
    assert stage.cluster.owned(CART) == ()
    for wanted in (["10.40.1.1"], ["10.40.1.2"], []):
        await write(stage, *wanted)
        assert written_addresses(stage) == wanted
    assert without_versions(await stage.stored()) == before
    assert addresses_of(stage) == ["10.20.1.1"]


async def test_a_users_object_in_the_place_of_ours_is_left_alone(stage: Harness) -> None:
    (change,) = planned(stage, "10.40.1.1")
    taken = users_slice("10.20.1.1", name="taken")
    await stage.put(taken)
    await stage.until(lambda: addresses_of(stage) == ["10.20.1.1"])
    before = without_versions(await stage.stored())
    metadata = {**change.manifest["metadata"], "name": "taken"}
    ours = {**change.manifest, "metadata": metadata}
    with pytest.raises(WriteError) as caught:
        await stage.cluster.apply(SliceChange(ChangeOp.CREATE, ours))
    assert caught.value.code == "name_taken"
    assert caught.value.cure
    assert stage.cluster.owned(CART) == ()
    assert without_versions(await stage.stored()) == before


async def test_what_we_wrote_is_never_local(stage: Harness) -> None:
    await write(stage, "10.40.1.1")
    (ours,) = without_versions(list(stage.cluster.owned(CART)))
    await stage.put(ours)
    await stage.put(users_slice("10.20.2.1", name="ledger-aa1", service="ledger"))
    await stage.until(lambda: addresses_of(stage, LEDGER) == ["10.20.2.1"])
    assert stage.cluster.local(CART) == LocalService(CART)
    assert CART not in stage.cluster.services()


async def test_what_we_wrote_stays_ours_without_its_marks(stage: Harness) -> None:
    await write(stage, "10.40.1.1")
    (ours,) = without_versions(list(stage.cluster.owned(CART)))
    for name in (LABEL_MANAGED_BY, LABEL_SERVICE, LABEL_SOURCE_CLUSTER):
        del ours["metadata"]["labels"][name]
    del ours["metadata"]["annotations"]
    ours["metadata"]["labels"]["kubernetes.io/service-name"] = "cart"
    stage.owned_keys.clear()
    await stage.put(ours)
    await stage.until(lambda: CART in stage.owned_keys and planned(stage, "10.40.1.1"))
    assert addresses_of(stage) == []
    await write(stage, "10.40.1.1")
    (repaired,) = stage.cluster.owned(CART)
    assert repaired["metadata"]["labels"][LABEL_SOURCE_CLUSTER] == "mesa"
    assert addresses_of(stage) == []


@pytest.mark.parametrize("damage", ["edited", "deleted"])
async def test_what_others_do_to_our_object_is_announced(stage: Harness, damage: str) -> None:
    await write(stage, "10.40.1.1", "10.40.1.2")
    (ours,) = without_versions(list(stage.cluster.owned(CART)))
    stage.owned_keys.clear()
    if damage == "edited":
        await stage.put({**ours, "endpoints": ours["endpoints"][:1]})
    else:
        await stage.remove("EndpointSlice", "shop", ours["metadata"]["name"])
    await stage.until(lambda: CART in stage.owned_keys)
    await stage.until(lambda: planned(stage, "10.40.1.1", "10.40.1.2"))
    await write(stage, "10.40.1.1", "10.40.1.2")
    assert written_addresses(stage) == ["10.40.1.1", "10.40.1.2"]
