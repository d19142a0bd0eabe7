"""Services of one real cluster, seen in the slices of the others.

Every test has a Service name of its own, so the tests share the clusters and run in any order.
Nothing here waits for an amount of time: ``expect`` watches the API until a thing is so, and
``flush`` lets later changes push earlier ones through before "nothing was written" is claimed.
"""

from __future__ import annotations

import asyncio

import pytest

from .agents import Mesh
from .objects import (
    IMPORTED_SERVICE_LABEL,
    MANAGER_LABEL,
    OUR_MANAGER,
    PODS,
    SERVICE_LABEL,
    SERVICES,
    SLICES,
    SOURCE_LABEL,
    change,
    local,
    names,
    offer,
    pod,
    readiness,
    running,
    service,
    slices_in,
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.asyncio(loop_scope="session"),
    # What a test waits for has its own deadlines, which explain themselves; this one does not.
    pytest.mark.timeout(600, func_only=True),
]


async def test_a_service_appears_in_every_other_cluster(mesh: Mesh, name: str) -> None:
    endpoints = {"10.1.1.1": True, "10.1.1.2": False}
    await offer(mesh.planes["a"].admin, name, endpoints)

    found = await mesh.expect_in_others(name, endpoints, source="a")

    assert sorted(found) == ["b", "c"]
    for slices in found.values():
        for one in slices:
            labels = one["metadata"]["labels"]
            assert labels[IMPORTED_SERVICE_LABEL] == name
            assert labels[SOURCE_LABEL] == "a"
            assert labels[MANAGER_LABEL] == OUR_MANAGER
            assert SERVICE_LABEL not in labels
            assert one["addressType"] == "IPv4"
            ports = [(port["name"], port["port"], port["protocol"]) for port in one["ports"]]
            assert ports == [("http", 8080, "TCP")]
    await mesh.flush()
    assert await mesh.slices("a", name) == []


async def test_pods_of_a_service_are_followed_through_their_life(mesh: Mesh, name: str) -> None:
    api = mesh.planes["a"].admin
    first, second = f"{name}-1", f"{name}-2"
    await api.create(SERVICES, service(name, selects_pods=True))
    for pod_name, address in ((first, "10.1.2.1"), (second, "10.1.2.2")):
        await api.create(PODS, pod(pod_name, name))
        await api.patch(f"{PODS}/{pod_name}/status", running(address))
    await mesh.expect_in_others(name, {"10.1.2.1": True, "10.1.2.2": True}, source="a")

    await api.patch(f"{PODS}/{first}/status", running("10.1.2.1", ready=False))
    await mesh.expect_in_others(name, {"10.1.2.1": False, "10.1.2.2": True}, source="a")

    await api.delete(f"{PODS}/{first}")
    await mesh.expect_in_others(name, {"10.1.2.2": True}, source="a")

    await api.delete(f"{SERVICES}/{name}")
    await mesh.expect_in_others(name, {}, source="a")


async def test_an_endpoint_added_changed_and_removed_arrives(mesh: Mesh, name: str) -> None:
    api = mesh.planes["b"].admin
    await offer(api, name, {"10.1.3.1": True})
    await mesh.expect_in_others(name, {"10.1.3.1": True}, source="b")

    for endpoints in (
        {"10.1.3.1": True, "10.1.3.2": True},
        {"10.1.3.1": False, "10.1.3.2": True},
        {"10.1.3.2": True},
    ):
        await change(api, name, endpoints)
        await mesh.expect_in_others(name, endpoints, source="b")

    await api.delete(f"{SLICES}/{name}")
    await mesh.expect_in_others(name, {}, source="b")


async def test_one_change_is_one_write_in_each_other_cluster(mesh: Mesh, name: str) -> None:
    api = mesh.planes["a"].admin
    await offer(api, name, {f"10.1.4.{host}": True for host in range(1, 51)})
    before = {f"10.1.4.{host}": True for host in range(1, 51)}
    found = await mesh.expect_in_others(name, before, source="a")
    marks = await mesh.marks()

    after = {**before, "10.1.4.7": False}
    await change(api, name, after)
    await mesh.expect_in_others(name, after, source="a")

    await mesh.flush()
    for cluster in ("b", "c"):
        writes = await mesh.writes_since(marks, cluster)
        assert len(writes) == 1, writes
        assert writes[0].name in names(found[cluster])
        assert writes[0].verb in {"update", "patch"}
    assert await mesh.writes_since(marks, "a") == []


async def test_the_same_service_of_two_clusters_stays_apart(mesh: Mesh, name: str) -> None:
    await offer(mesh.planes["a"].admin, name, {"10.1.5.1": True})
    await offer(mesh.planes["b"].admin, name, {"10.2.5.1": True})
    await mesh.expect("c", name, {"10.1.5.1": True}, source="a")
    await mesh.expect("c", name, {"10.2.5.1": True}, source="b")
    await mesh.expect("b", name, {"10.1.5.1": True}, source="a")
    await mesh.expect("a", name, {"10.2.5.1": True}, source="b")

    await mesh.planes["a"].admin.delete(f"{SLICES}/{name}")

    await mesh.expect_in_others(name, {}, source="a")
    await mesh.flush()
    assert readiness(await mesh.slices("c", name)) == {"10.2.5.1": True}
    own = await mesh.planes["b"].admin.get(SLICES, local(name))
    assert readiness(own["items"]) == {"10.2.5.1": True}


async def test_what_somebody_else_did_to_our_slices_is_put_right(mesh: Mesh, name: str) -> None:
    await offer(mesh.planes["a"].admin, name, {"10.1.6.1": True})
    wanted = {"10.1.6.1": True}
    found = await mesh.expect_in_others(name, wanted, source="a")
    api, path = mesh.planes["b"].admin, f"{SLICES}/{found['b'][0]['metadata']['name']}"

    edited = await api.patch(path, {"endpoints": []})
    assert readiness([edited]) == {}
    await mesh.expect("b", name, wanted, source="a")

    await api.patch(path, {"metadata": {"labels": {IMPORTED_SERVICE_LABEL: None}}})
    await mesh.expect("b", name, wanted, source="a")

    await api.delete(path)
    await mesh.expect("b", name, wanted, source="a")


async def test_a_change_that_carries_nothing_is_not_written(mesh: Mesh, name: str) -> None:
    api = mesh.planes["a"].admin
    await offer(api, name, {"10.1.7.1": True})
    await mesh.expect_in_others(name, {"10.1.7.1": True}, source="a")
    marks = await mesh.marks()

    await api.patch(f"{SLICES}/{name}", {"metadata": {"annotations": {"unrelated": "yes"}}})

    await mesh.flush()
    for cluster in mesh.planes:
        assert await mesh.writes_since(marks, cluster) == []


async def test_a_namespace_that_comes_later_gets_its_slices(mesh: Mesh, name: str) -> None:
    await mesh.planes["a"].create_namespace(name)
    there = slices_in(name)
    await offer(mesh.planes["a"].admin, name, {"10.1.8.1": True}, namespace=name)
    await mesh.flush()
    for cluster in mesh.others("a"):
        await mesh.planes[cluster].create_namespace(name)

    arriving = (
        mesh.expect(cluster, name, {"10.1.8.1": True}, source="a", slices=there)
        for cluster in mesh.others("a")
    )
    await asyncio.gather(*arriving)


async def test_every_call_of_an_agent_is_within_its_rights(mesh: Mesh, name: str) -> None:
    marks = await mesh.marks()
    await offer(mesh.planes["c"].admin, name, {"10.3.9.1": True})
    await mesh.expect_in_others(name, {"10.3.9.1": True}, source="c")
    await mesh.agents["a"].restart()
    await mesh.flush()

    for cluster in mesh.planes:
        calls = await mesh.calls_since(marks, cluster)
        assert [call for call in calls if call.code in {401, 403}] == []
        assert {call.resource for call in calls if call.is_write} <= {"endpointslices"}
