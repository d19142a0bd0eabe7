"""The Multi-Cluster Services API on real clusters: exports, imports and what they say.

Every test has a Service name of its own, so the tests share the clusters and run in any order.
"""

from __future__ import annotations

import asyncio

import pytest

from .multicluster import (
    REMOVED_SECONDS,
    MulticlusterMesh,
    called,
    conditions,
    export_of,
    exports_in,
    imports_in,
    services_in,
)
from .objects import (
    MANAGER_LABEL,
    OUR_MANAGER,
    SERVICE_LABEL,
    SERVICES,
    SLICES,
    SOURCE_LABEL,
    change,
    readiness,
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.asyncio(loop_scope="session"),
    # What a test waits for has its own deadlines, which explain themselves; this one does not.
    pytest.mark.timeout(600, func_only=True),
]

NAMESPACES = "/api/v1/namespaces"
NO_SERVICE = {"Valid": ("False", "NoService"), "Ready": ("False", "Failed")}
PORT_CONFLICT = {"Valid": ("True", "Valid"), "Conflict": ("True", "PortConflict")}


async def test_an_export_becomes_an_import_in_every_cluster_and_goes_with_it(
    mcs: MulticlusterMesh, name: str
) -> None:
    await mcs.offer("east", name, {"10.3.1.1": True, "10.3.1.2": False})

    found = await mcs.expect_everywhere(name, {"east"})
    for cluster, one in found.items():
        spec, metadata = one.service_import["spec"], one.service_import["metadata"]
        derived = one.derived["metadata"]["name"]
        assert spec["type"] == "ClusterSetIP"
        assert spec["ports"] == [{"name": "http", "port": 80, "protocol": "TCP"}]
        assert spec["ips"] == [one.derived["spec"]["clusterIP"]]
        assert metadata["annotations"]["multicluster.kubernetes.io/derived-service"] == derived
        assert readiness(one.slices) == {"10.3.1.1": True, "10.3.1.2": False}
        for each in one.slices:
            labels = each["metadata"]["labels"]
            assert labels[SERVICE_LABEL] == derived
            assert labels[SOURCE_LABEL] == "east"
            assert labels[MANAGER_LABEL] == OUR_MANAGER
        older = await mcs.planes[cluster].admin.get(f"{imports_in(version='v1alpha1')}/{name}")
        assert older["spec"] == spec
    await mcs.expect_export("east", name)

    await mcs.planes["east"].admin.delete(f"{exports_in()}/{name}")

    await mcs.expect_nowhere(name)


async def test_of_two_exporters_both_are_reached_and_the_last_takes_the_import_with_it(
    mcs: MulticlusterMesh, name: str
) -> None:
    await mcs.offer("east", name, {"10.3.2.1": True})
    before = await mcs.expect_everywhere(name, {"east"})
    await mcs.offer("west", name, {"10.4.2.1": True})
    both = await mcs.expect_everywhere(name, {"east", "west"})
    for cluster, one in both.items():
        assert readiness(one.slices) == {"10.3.2.1": True, "10.4.2.1": True}
        assert one.service_import["spec"]["ips"] == before[cluster].service_import["spec"]["ips"]

    await mcs.planes["east"].admin.delete(f"{exports_in()}/{name}")
    rest = await mcs.expect_everywhere(name, {"west"})
    for one in rest.values():
        assert readiness(one.slices) == {"10.4.2.1": True}
    await mcs.planes["west"].admin.delete(f"{exports_in()}/{name}")

    await mcs.expect_nowhere(name)


async def test_conflicting_ports_are_told_on_both_exports_and_disturb_no_traffic(
    mcs: MulticlusterMesh, name: str
) -> None:
    await mcs.offer("east", name, {"10.3.3.1": True})
    before = await mcs.expect_everywhere(name, {"east"})
    await mcs.offer("west", name, {"10.4.3.1": True})
    await mcs.expect_everywhere(name, {"east", "west"})
    await mcs.expect_export("west", name)
    agreed = {cluster: await mcs.slices(cluster, name, "east") for cluster in mcs.planes}

    http = {"name": "http", "port": 81, "targetPort": 8080}
    await mcs.planes["west"].admin.patch(f"{SERVICES}/{name}", {"spec": {"ports": [http]}})

    for cluster in ("east", "west"):
        said = ("80/TCP of east", "1/2 clusters disagree")
        await mcs.expect_export(cluster, name, PORT_CONFLICT, said)
    for cluster in mcs.planes:
        await mcs.expect(cluster, name, {}, source="west")
        assert await mcs.slices(cluster, name, "east") == agreed[cluster]
        derived = await mcs.planes[cluster].admin.get(
            f"{services_in()}/{before[cluster].derived['metadata']['name']}"
        )
        assert derived["spec"] == before[cluster].derived["spec"]

    http["port"] = 80
    await mcs.planes["west"].admin.patch(f"{SERVICES}/{name}", {"spec": {"ports": [http]}})
    for cluster in ("east", "west"):
        await mcs.expect_export(cluster, name)
    for cluster in mcs.planes:
        await mcs.expect(cluster, name, {"10.4.3.1": True}, source="west")
        assert await mcs.slices(cluster, name, "east") == agreed[cluster]


async def test_an_export_without_a_service_says_so_and_imports_nothing(
    mcs: MulticlusterMesh, name: str
) -> None:
    admin = mcs.planes["east"].admin
    await admin.create(exports_in(), export_of(name))

    await mcs.expect_export("east", name, NO_SERVICE)

    await mcs.flush()
    for plane in mcs.planes.values():
        assert (await plane.admin.get(imports_in(), called(name)))["items"] == []


async def test_a_service_deleted_and_made_again_is_unexported_and_exported(
    mcs: MulticlusterMesh, name: str
) -> None:
    admin = mcs.planes["east"].admin
    await mcs.offer("east", name, {"10.3.4.1": True})
    await mcs.expect_everywhere(name, {"east"})
    service = await admin.get(f"{SERVICES}/{name}")

    await admin.delete(f"{SERVICES}/{name}")
    await mcs.expect_nowhere(name)
    await mcs.expect_export("east", name, NO_SERVICE)

    again = {"metadata": {"name": name}, "spec": {"ports": service["spec"]["ports"]}}
    await admin.create(SERVICES, again)
    await change(admin, name, {"10.3.4.2": True})
    found = await mcs.expect_everywhere(name, {"east"})
    await mcs.expect_export("east", name)
    for cluster, one in found.items():
        await mcs.expect(cluster, name, {"10.3.4.2": True}, source="east")
        assert {c["cluster"] for c in one.service_import["status"]["clusters"]} == {"east"}


async def test_an_import_is_written_once_its_namespace_exists(
    mcs: MulticlusterMesh, name: str
) -> None:
    await mcs.planes["east"].create_namespace(name)
    await mcs.offer("east", name, {"10.3.5.1": True}, name)
    await mcs.expect_import("east", name, {"east"}, namespace=name)
    await mcs.flush()
    with_it = await mcs.planes["west"].admin.get(NAMESPACES, called(name))
    assert with_it["items"] == []

    await mcs.planes["west"].create_namespace(name)

    await mcs.expect_import("west", name, {"east"}, namespace=name, seconds=REMOVED_SECONDS)


async def test_a_namespace_deleted_with_live_exports_can_be_made_anew(
    mcs: MulticlusterMesh, name: str
) -> None:
    for plane in mcs.planes.values():
        await plane.create_namespace(name)
    await mcs.offer("east", name, {"10.3.6.1": True}, name)
    before = await mcs.expect_everywhere(name, {"east"}, namespace=name)

    await asyncio.gather(
        *(plane.admin.delete(f"{NAMESPACES}/{name}") for plane in mcs.planes.values())
    )
    for plane in mcs.planes.values():
        await plane.admin.wait_for(
            NAMESPACES, lambda left: not left, what="the namespace is gone", query=called(name)
        )
        await plane.create_namespace(name)
    await mcs.offer("east", name, {"10.3.6.2": True}, name)

    after = await mcs.expect_everywhere(name, {"east"}, namespace=name)
    for cluster, one in after.items():
        former = before[cluster].service_import["metadata"]["uid"]
        assert one.service_import["metadata"]["uid"] != former
        await mcs.planes[cluster].admin.wait_for(
            f"/apis/discovery.k8s.io/v1/namespaces/{name}/endpointslices",
            lambda found: readiness(found) == {"10.3.6.2": True},
            what="only the new endpoint is there",
            query={"labelSelector": f"{SOURCE_LABEL}=east"},
        )


async def test_conditions_of_others_on_an_export_are_left_alone(
    mcs: MulticlusterMesh, name: str
) -> None:
    admin = mcs.planes["west"].admin
    await mcs.offer("west", name, {"10.4.7.1": True})
    export = await mcs.expect_export("west", name)
    theirs = {
        "type": "Audited",
        "status": "True",
        "reason": "Checked",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    export["status"]["conditions"].append(theirs)
    await admin.replace(f"{exports_in()}/{name}/status", export)

    await admin.delete(f"{SERVICES}/{name}")

    told = await mcs.expect_export("west", name, NO_SERVICE)
    assert conditions(told)["Audited"] == ("True", "Checked")
    assert (await admin.get(f"{SLICES}/{name}"))["metadata"]["name"] == name
