"""Mode ``mcs`` by its writes: none when idle, just those a change needs, none to what is not ours.

What was written is taken from the API servers' audit logs, all users and all verbs of change.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter

import pytest

from .kube.api import Object
from .multicluster import (
    MulticlusterMesh,
    called,
    exports_in,
    imports_in,
    ours_of,
    services_in,
)
from .objects import (
    IMPORTED_SERVICE_LABEL,
    SLICES,
    SOURCE_LABEL,
    change,
    endpoint,
    endpoint_slice,
    names,
    readiness,
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.asyncio(loop_scope="session"),
    # What a test waits for has its own deadlines, which explain themselves; this one does not.
    pytest.mark.timeout(600, func_only=True),
]

IDLE_SECONDS = int(os.environ.get("REPLICATOR_E2E_IDLE_SECONDS", "30"))
"""How long an idle system is watched; the API servers measure the time."""
WRITTEN = (SLICES, services_in(), imports_in(), exports_in())


async def writes(mcs: MulticlusterMesh, marks: dict[str, int], cluster: str) -> Counter[str]:
    """What the cluster's agent wrote since, as ``verb resource``, with ``/status`` where it is."""
    return Counter(
        f"{call.verb} {call.resource}{'/status' if call.path.endswith('/status') else ''}"
        for call in await mcs.writes_since(marks, cluster)
    )


async def test_an_idle_system_writes_nothing(mcs: MulticlusterMesh, name: str) -> None:
    for host, cluster in enumerate(mcs.planes):
        await mcs.offer(cluster, name, {f"10.3.40.{host}": True, f"10.3.41.{host}": False})
    await mcs.expect_everywhere(name, set(mcs.planes))
    for cluster in mcs.planes:
        await mcs.expect_export(cluster, name)
    marks = await mcs.marks()

    happened = await asyncio.gather(
        *(
            plane.admin.events_within(path, IDLE_SECONDS)
            for plane in mcs.planes.values()
            for path in WRITTEN
        )
    )

    assert [event for events in happened for event in events] == []
    for cluster in mcs.planes:
        calls = await mcs.calls_since(marks, cluster)
        assert [call for call in calls if call.is_write] == []


async def test_each_change_makes_the_writes_it_needs_and_no_more(
    mcs: MulticlusterMesh, name: str
) -> None:
    marks = await mcs.marks()
    await mcs.offer("east", name, {f"10.3.42.{host}": True for host in range(1, 51)})
    await mcs.expect_everywhere(name, {"east"})
    await mcs.expect_export("east", name)
    await mcs.flush()
    for cluster in mcs.planes:
        wanted = {
            "create serviceimports": 1,
            "create services": 1,
            "create endpointslices": 1,
            "update serviceimports": 1,  # the address of the derived Service
            "update serviceimports/status": 2,  # that it waits for that, and that it is ready
        }
        if cluster == "east":
            wanted["update serviceexports/status"] = 1
        assert await writes(mcs, marks, cluster) == wanted

    marks = await mcs.marks()
    after = {f"10.3.42.{host}": host != 7 for host in range(1, 51)}
    await change(mcs.planes["east"].admin, name, after)
    for cluster in mcs.planes:
        await mcs.expect(cluster, name, after, source="east")
    await mcs.flush()
    for cluster in mcs.planes:
        assert await writes(mcs, marks, cluster) == {"update endpointslices": 1}

    marks = await mcs.marks()
    await mcs.planes["east"].admin.delete(f"{exports_in()}/{name}")
    await mcs.expect_nowhere(name)
    await mcs.flush()
    for cluster in mcs.planes:
        found = await writes(mcs, marks, cluster)
        assert found == {
            "delete endpointslices": 1,
            "delete services": 1,
            "delete serviceimports": 1,
        }


async def test_what_was_deleted_while_agents_were_down_stays_deleted(
    mcs: MulticlusterMesh, name: str
) -> None:
    east, gone = mcs.planes["east"].admin, f"{name}-gone"
    await mcs.offer("east", name, {"10.3.43.1": True, "10.3.43.2": True})
    await mcs.offer("east", gone, {"10.3.44.1": True})
    await mcs.expect_everywhere(name, {"east"})
    await mcs.expect_everywhere(gone, {"east"})
    await mcs.flush()

    await mcs.agents["west"].kill()
    await change(east, name, {"10.3.43.2": True})
    await east.delete(f"{exports_in()}/{gone}")
    await mcs.expect_none("north", gone, seconds=20.0)
    # Now nobody who knows of the deletes but north's agent is up when west's comes back.
    await mcs.agents["east"].kill()
    marks = await mcs.marks(settled=False)
    await mcs.agents["west"].start()

    await mcs.expect("west", name, {"10.3.43.2": True}, source="east")
    await mcs.expect_none("west", gone, seconds=20.0)
    await mcs.agents["east"].start()
    await mcs.flush()

    for cluster in ("east", "north", "west"):
        calls = await mcs.writes_since(marks, cluster)
        assert [call for call in calls if call.verb == "create"] == []
        await mcs.expect(cluster, name, {"10.3.43.2": True}, source="east")
        await mcs.expect_none(cluster, gone, seconds=20.0)


async def test_objects_of_others_are_left_alone(mcs: MulticlusterMesh, name: str) -> None:
    west = mcs.planes["west"].admin
    service_import: Object = {
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceImport",
        "metadata": {"name": name},
        "spec": {"type": "ClusterSetIP", "ports": [{"port": 1, "name": "theirs"}]},
    }
    service = {"metadata": {"name": name}, "spec": {"ports": [{"port": 5432}]}}
    labels = {IMPORTED_SERVICE_LABEL: name, SOURCE_LABEL: "east"}
    theirs = endpoint_slice(f"{name}-theirs", "other", [endpoint("10.9.9.9")])
    theirs["metadata"]["labels"].update(labels)
    before = [
        await west.create(imports_in(), service_import),
        await west.create(services_in(), service),
        await west.create(SLICES, theirs),
    ]
    marks = await mcs.marks()

    await mcs.offer("east", name, {"10.3.45.1": True})
    await mcs.expect_import("north", name, {"east"})
    await mcs.flush()
    await mcs.agents["west"].restart()
    await mcs.flush()
    await mcs.planes["east"].admin.delete(f"{exports_in()}/{name}")
    await mcs.expect_none("north", name, seconds=20.0)
    await mcs.flush()

    paths = (f"{imports_in()}/{name}", f"{services_in()}/{name}", f"{SLICES}/{name}-theirs")
    for path, was in zip(paths, before, strict=True):
        now = await west.get(path)
        assert now["metadata"]["uid"] == was["metadata"]["uid"]
        assert now["metadata"]["resourceVersion"] == was["metadata"]["resourceVersion"]
    asked = [call for call in await mcs.writes_since(marks, "west") if name in call.name]
    # Once in each life the agent tries to make an import, is told that there is one, and says so.
    assert {(call.verb, call.resource, call.code) for call in asked} == {
        ("create", "serviceimports", 409)
    }
    assert len(asked) <= 2


async def test_an_own_service_beside_the_import_keeps_its_endpoints(
    mcs: MulticlusterMesh, name: str
) -> None:
    """The derived Service is another one: what ``cluster.local`` names stays local."""
    west = mcs.planes["west"].admin
    await mcs.offer("west", name, {"10.4.46.1": True})
    await mcs.offer("east", name, {"10.3.46.1": True})
    both = {"10.4.46.1": True, "10.3.46.1": True}

    one = (await mcs.expect_everywhere(name, {"east", "west"}))["west"]

    assert readiness(one.slices) == both
    own = await west.get(SLICES, {"labelSelector": f"kubernetes.io/service-name={name}"})
    assert names(own["items"]) == {name}
    assert readiness(own["items"]) == {"10.4.46.1": True}
    theirs = await west.get(SLICES, ours_of(name))
    assert {
        each["metadata"]["labels"]["kubernetes.io/service-name"] for each in theirs["items"]
    } == {one.derived["metadata"]["name"]}
    assert len((await west.get(services_in(), called(name)))["items"]) == 1
