"""Rules of the Multi-Cluster Services API on three real clusters: who decides, what is said of it.

Two of the clusters have IPv4 and IPv6, the third has IPv4 alone.
"""

from __future__ import annotations

from typing import Any

import pytest

from .kube.api import Object
from .multicluster import (
    VALID,
    MulticlusterMesh,
    called,
    conditions,
    export_of,
    exports_in,
    imports_in,
    ours_of,
    services_in,
)
from .objects import SERVICES, SLICES, SOURCE_LABEL, endpoint, endpoint_slice, readiness

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.asyncio(loop_scope="session"),
    # What a test waits for has its own deadlines, which explain themselves; this one does not.
    pytest.mark.timeout(600, func_only=True),
]

HTTP = {"name": "http", "port": 80, "protocol": "TCP"}
GRPC = {"name": "grpc", "port": 90, "protocol": "TCP"}


async def export(mcs: MulticlusterMesh, cluster: str, name: str, **spec: Any) -> Object:
    """Create a Service of this spec and export it; returns the Service."""
    admin = mcs.planes[cluster].admin
    made = await admin.create(SERVICES, {"metadata": {"name": name}, "spec": spec})
    await admin.create(exports_in(), export_of(name))
    return made


async def slices_of(
    mcs: MulticlusterMesh, cluster: str, name: str, wanted: dict[str, bool]
) -> list[Object]:
    """Watch until the imported slices of a service have these endpoints."""
    return await mcs.planes[cluster].admin.wait_for(
        SLICES,
        lambda found: readiness(found) == wanted,
        what=f"{cluster} has {wanted} for {name}",
        query=ours_of(name),
    )


async def import_of(mcs: MulticlusterMesh, cluster: str, name: str, **wanted: object) -> Object:
    """Watch until the import of a service has these fields in its spec."""
    found = await mcs.planes[cluster].admin.wait_for(
        imports_in(),
        lambda held: bool(held) and wanted.items() <= held[0].get("spec", {}).items(),
        what=f"{cluster} imports {name} with {wanted}",
        query=called(name),
    )
    return found[0]


async def second_after(mcs: MulticlusterMesh, cluster: str, name: str) -> None:
    """Return once the API server would give a new object a later second than this export has.

    Creation times are whole seconds, and within one the name of the cluster decides.
    """
    admin = mcs.planes[cluster].admin
    first = (await admin.get(f"{exports_in()}/{name}"))["metadata"]["creationTimestamp"]
    later = first
    while later == first:
        probe = {"metadata": {"generateName": "probe-"}}
        made = await admin.create("/api/v1/namespaces/shop/configmaps", probe)
        later = made["metadata"]["creationTimestamp"]
        await admin.delete(f"/api/v1/namespaces/shop/configmaps/{made['metadata']['name']}")


async def test_the_oldest_export_decides_and_the_next_one_when_it_goes(
    mcs: MulticlusterMesh, name: str
) -> None:
    # By name north would come before west: it is age that counts.
    sticky = {"sessionAffinity": "ClientIP"}
    await export(mcs, "west", name, ports=[HTTP], **sticky)
    await mcs.expect_export("west", name)
    await second_after(mcs, "west", name)
    await export(mcs, "north", name, ports=[HTTP, GRPC])
    await mcs.expect_export("north", name, {"Valid": ("True", "Valid")})
    await second_after(mcs, "north", name)
    await export(mcs, "east", name, ports=[{**HTTP, "port": 81}, GRPC])

    reasons = "PortConflict,SessionAffinityConflict"
    said = (
        'sessionAffinity "ClientIP" of west is used, 2/3 clusters disagree',
        "http 80/TCP of west",
        "grpc 90/TCP of north",
    )
    for cluster in mcs.planes:
        await mcs.expect_export(cluster, name, {**VALID, "Conflict": ("True", reasons)}, said)
        found = await import_of(mcs, cluster, name, sessionAffinity="ClientIP")
        assert {(p["name"], p["port"]) for p in found["spec"]["ports"]} == {
            ("http", 80),
            ("grpc", 90),
        }

    await mcs.planes["west"].admin.delete(f"{exports_in()}/{name}")

    for cluster in ("north", "east"):
        said = ("http 80/TCP of north", "1/2 clusters disagree")
        await mcs.expect_export(cluster, name, {"Conflict": ("True", "PortConflict")}, said)
    for cluster in mcs.planes:
        await import_of(mcs, cluster, name, sessionAffinity="None")

    await mcs.planes["north"].admin.delete(f"{exports_in()}/{name}")
    await mcs.expect_export("east", name)
    for cluster in mcs.planes:
        found = await import_of(mcs, cluster, name, sessionAffinity="None")
        await mcs.planes[cluster].admin.wait_for(
            imports_in(),
            lambda held: {p["port"] for p in held[0]["spec"]["ports"]} == {81, 90},
            what=f"{cluster} imports what east alone declares",
            query=called(name),
        )
        assert found["spec"]["type"] == "ClusterSetIP"


async def test_a_headless_service_has_no_address_and_keeps_host_names(
    mcs: MulticlusterMesh, name: str
) -> None:
    admin = mcs.planes["east"].admin
    await export(mcs, "east", name, clusterIP="None", ports=[HTTP])
    named = [{**endpoint(f"10.3.30.{i}"), "hostname": f"web-{i}"} for i in (1, 2)]
    await admin.create(SLICES, endpoint_slice(name, name, named, port=80))

    for cluster in mcs.planes:
        [one] = await slices_of(mcs, cluster, name, {"10.3.30.1": True, "10.3.30.2": True})
        assert [each["hostname"] for each in one["endpoints"]] == ["web-1", "web-2"]
        assert one["metadata"]["labels"][SOURCE_LABEL] == "east"
        found = await import_of(mcs, cluster, name, type="Headless")
        assert "ips" not in found["spec"]
        derived = await mcs.planes[cluster].admin.get(services_in(), ours_of(name))
        assert derived["items"] == []


async def test_both_families_are_imported_where_there_are_both(
    mcs: MulticlusterMesh, name: str
) -> None:
    admin = mcs.planes["east"].admin
    await export(mcs, "east", name, ipFamilyPolicy="RequireDualStack", ports=[HTTP])
    await admin.create(SLICES, endpoint_slice(f"{name}-4", name, [endpoint("10.3.31.1")]))
    six = endpoint_slice(f"{name}-6", name, [endpoint("fd00:3::31:1", ready=False)])
    await admin.create(SLICES, {**six, "addressType": "IPv6"})

    for cluster, families in (
        ("east", ["IPv4", "IPv6"]),
        ("west", ["IPv4", "IPv6"]),
        ("north", ["IPv4"]),
    ):
        one = await mcs.expect_import(cluster, name, {"east"})
        spec = one.service_import["spec"]
        assert spec["ipFamilies"] == families
        assert spec["ips"] == one.derived["spec"]["clusterIPs"]
        assert [":" in ip for ip in spec["ips"]] == [family == "IPv6" for family in families]
        found = await slices_of(mcs, cluster, name, {"10.3.31.1": True, "fd00:3::31:1": False})
        assert sorted(each["addressType"] for each in found) == ["IPv4", "IPv6"]
    await mcs.expect_export("east", name)


async def test_a_family_that_a_cluster_lacks_is_said_there_and_nowhere_else(
    mcs: MulticlusterMesh, name: str
) -> None:
    await export(mcs, "west", name, ipFamilies=["IPv6"], ports=[HTTP])
    six = endpoint_slice(name, name, [endpoint("fd00:4::32:1")])
    await mcs.planes["west"].admin.create(SLICES, {**six, "addressType": "IPv6"})

    for cluster in ("east", "west"):
        one = await mcs.expect_import(cluster, name, {"west"})
        assert one.service_import["spec"]["ipFamilies"] == ["IPv6"]
    found = await mcs.planes["north"].admin.wait_for(
        imports_in(),
        lambda held: conditions(held[0]).get("Ready") == ("False", "IPFamilyNotSupported"),
        what="north says that it cannot have an address",
        query=called(name),
    )
    assert "ips" not in found[0]["spec"]
    # Other services go on there.
    await mcs.flush()
