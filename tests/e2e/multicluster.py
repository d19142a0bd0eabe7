"""Agents in mode ``mcs``, and the objects of the Multi-Cluster Services API as tests see them.

What is expected is stated from the API's own documents (KEP-1645), not from the agent's code.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from .agents import EXPECT_SECONDS, SENTINEL, Mesh, is_of_sentinel
from .kube.api import Api, Object, Objects
from .kube.control_plane import ControlPlane
from .objects import (
    IMPORTED_SERVICE_LABEL,
    MANAGER_LABEL,
    NAMESPACE,
    OUR_MANAGER,
    names,
    offer,
    slices_in,
)

RBAC = Path(__file__).with_name("kube") / "rbac-mcs.yaml"
GROUP = "multicluster.x-k8s.io"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REMOVED_SECONDS = 20.0
"""What the conformance suite allows between the last unexport and the end of the import."""


def exports_in(namespace: str = NAMESPACE) -> str:
    """Path of the ServiceExports of a namespace."""
    return f"/apis/multicluster.x-k8s.io/v1beta1/namespaces/{namespace}/serviceexports"


def imports_in(namespace: str = NAMESPACE, version: str = "v1beta1") -> str:
    """Path of the ServiceImports of a namespace."""
    return f"/apis/multicluster.x-k8s.io/{version}/namespaces/{namespace}/serviceimports"


def services_in(namespace: str = NAMESPACE) -> str:
    """Path of the Services of a namespace."""
    return f"/api/v1/namespaces/{namespace}/services"


def called(name: str) -> Mapping[str, str]:
    """Query for the one object of a name."""
    return {"fieldSelector": f"metadata.name={name}"}


def of_service(name: str) -> Mapping[str, str]:
    """Query for whatever is labelled as being for a service."""
    return {"labelSelector": f"{IMPORTED_SERVICE_LABEL}={name}"}


def ours_of(name: str) -> Mapping[str, str]:
    """Query for our slices of a service: the controllers' own copy a Service's labels."""
    labels = f"{IMPORTED_SERVICE_LABEL}={name},{MANAGER_LABEL}={OUR_MANAGER}"
    return {"labelSelector": labels}


def export_of(name: str) -> Object:
    """Build a ServiceExport."""
    return {
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceExport",
        "metadata": {"name": name},
    }


def conditions(one: Object) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition by its type."""
    held = one.get("status", {}).get("conditions") or ()
    return {each["type"]: (each["status"], each["reason"]) for each in held}


def has_conditions(
    wanted: Mapping[str, tuple[str, str]], said: Collection[str] = ()
) -> Callable[[Objects], bool]:
    """Condition on objects: there is one, with these conditions and in its conflict these words.

    The same reasons may stand for what was there before: who waits for an answer to the last
    change names what only that brings.
    """

    def met(found: Objects) -> bool:
        if not found or not wanted.items() <= conditions(found[0]).items():
            return False
        return all(words in conflict_of(found[0]) for words in said)

    return met


def conflict_of(export: Object) -> str:
    """What its condition Conflict says; nothing without one."""
    told = export.get("status", {}).get("conditions") or ()
    return "".join(str(one["message"]) for one in told if one["type"] == "Conflict")


VALID = {
    "Valid": ("True", "Valid"),
    "Ready": ("True", "Exported"),
    "Conflict": ("False", "NoConflicts"),
}
"""Conditions of an export with which nothing is wrong."""


@dataclass(frozen=True)
class Imported:
    """All that a cluster holds of one imported service that has an address."""

    service_import: Object
    derived: Object
    slices: Objects

    @property
    def written(self) -> dict[str, tuple[str, str]]:
        """Uid and version of each object by kind and name: equal before and after, not written."""
        metadata = {
            f"{kind}/{one['metadata']['name']}": one["metadata"]
            for kind, found in (
                ("serviceimport", [self.service_import]),
                ("service", [self.derived]),
                ("endpointslice", self.slices),
            )
            for one in found
        }
        return {name: (one["uid"], one["resourceVersion"]) for name, one in metadata.items()}


class MulticlusterMesh(Mesh):
    """As :class:`Mesh`; the CRDs must be served before the agents start."""

    export = "service-export"
    mode = "mcs"

    async def expect_export(
        self,
        cluster: str,
        name: str,
        wanted: Mapping[str, tuple[str, str]] = VALID,
        said: Collection[str] = (),
    ) -> Object:
        """Watch until the export in ``cluster`` has these conditions, and its conflict says so."""
        found = await self.planes[cluster].admin.wait_for(
            exports_in(),
            has_conditions(wanted, said),
            what=f"the ServiceExport {name} in {cluster} says {dict(wanted)} {list(said)}",
            query=called(name),
            seconds=EXPECT_SECONDS,
        )
        return found[0]

    async def expect_import(
        self,
        cluster: str,
        name: str,
        sources: set[str],
        *,
        namespace: str = NAMESPACE,
        seconds: float = EXPECT_SECONDS,
    ) -> Imported:
        """Watch until ``cluster`` has a finished import of exactly these exporting clusters."""
        admin = self.planes[cluster].admin
        found = await admin.wait_for(
            imports_in(namespace),
            lambda imports: _is_finished(imports, sources),
            what=f"cluster {cluster} has a ready ServiceImport {name} of {sorted(sources)}",
            query=called(name),
            seconds=seconds,
        )
        slices = await admin.wait_for(
            slices_in(namespace),
            lambda held: _owner_uids(held) == {found[0]["metadata"]["uid"]},
            what=f"cluster {cluster} has slices of {name} that belong to its import",
            query=ours_of(name),
            seconds=seconds,
        )
        [derived] = (await admin.get(services_in(namespace), of_service(name)))["items"]
        return Imported(found[0], derived, slices)

    async def expect_none(
        self, cluster: str, name: str, *, namespace: str = NAMESPACE, seconds: float
    ) -> None:
        """Watch until ``cluster`` holds nothing of an imported service any more."""
        for path, query in (
            (imports_in(namespace), called(name)),
            (slices_in(namespace), of_service(name)),
            (services_in(namespace), of_service(name)),
        ):
            await self.planes[cluster].admin.wait_for(
                path,
                lambda found: not found,
                what=f"cluster {cluster} has nothing of {name}",
                query=query,
                seconds=seconds,
            )

    async def expect_everywhere(
        self, name: str, sources: set[str], *, namespace: str = NAMESPACE
    ) -> dict[str, Imported]:
        """Expect a finished import in every cluster."""
        found = await asyncio.gather(
            *(self.expect_import(one, name, sources, namespace=namespace) for one in self.planes)
        )
        return dict(zip(self.planes, found, strict=True))

    async def expect_nowhere(
        self, name: str, *, namespace: str = NAMESPACE, seconds: float = REMOVED_SECONDS
    ) -> None:
        """Expect nothing of a service in any cluster, within the time the suite allows."""
        await asyncio.gather(
            *(
                self.expect_none(one, name, namespace=namespace, seconds=seconds)
                for one in self.planes
            )
        )

    async def offer(
        self, cluster: str, name: str, addresses: Mapping[str, bool], namespace: str = NAMESPACE
    ) -> None:
        """Create a Service with these endpoints, and export it."""
        admin = self.planes[cluster].admin
        await offer(admin, name, addresses, namespace=namespace)
        await admin.create(exports_in(namespace), export_of(name))

    async def _sentinel(self, cluster: str) -> None:
        name = f"{SENTINEL}{secrets.token_hex(6)}"
        await self.offer(cluster, name, {"10.99.0.1": True})
        await self.expect_everywhere(name, {cluster})
        await self.expect_export(cluster, name)

    async def _of_sentinels(self, cluster: str) -> set[str]:
        admin = self.planes[cluster].admin
        slices = await admin.get(slices_in(NAMESPACE), {"labelSelector": IMPORTED_SERVICE_LABEL})
        derived = await admin.get(services_in(), {"labelSelector": IMPORTED_SERVICE_LABEL})
        imports = await admin.get(imports_in())
        ours = [one for one in slices["items"] + derived["items"] if is_of_sentinel(one)]
        return names(ours) | {name for name in names(imports["items"]) if name.startswith(SENTINEL)}


def _is_finished(imports: Objects, sources: set[str]) -> bool:
    """Whether an import has an address, is ready, and is of exactly these clusters."""
    if not imports or not imports[0].get("spec", {}).get("ips"):
        return False
    status = imports[0].get("status", {})
    listed = {one["cluster"] for one in status.get("clusters") or ()}
    ready = conditions(imports[0]).get("Ready") == ("True", "Ready")
    present = status.get("endpointSliceObjects") == "Present"
    return listed == sources and ready and present


def _owner_uids(slices: Objects) -> set[str]:
    return {
        owner["uid"]
        for one in slices
        for owner in one["metadata"].get("ownerReferences") or [{"uid": ""}]
    }


async def apply_crds(plane: ControlPlane, crds: tuple[Path, ...]) -> None:
    """Install the CRDs and wait until both versions of both are served."""
    for path in crds:
        await plane.create_from(path)
    await wait_for_crds(plane.admin)


async def wait_for_crds(admin: Api) -> None:
    """Return once both versions of both resources are served."""
    await admin.wait_for(
        CRDS,
        lambda found: sum(map(_is_ours_and_established, found)) == 2,
        what="the CRDs are established",
    )
    for version in ("v1beta1", "v1alpha1"):
        # A list is refused for a moment after that; waiting goes on until one is answered.
        await admin.wait_for(imports_in(version=version), lambda _: True, what="imports are listed")
    await admin.wait_for(exports_in(), lambda _: True, what="exports are listed")


async def remove_crds(plane: ControlPlane) -> None:
    """Remove the CRDs with all their objects, and wait until they are gone."""
    found = await plane.admin.get(CRDS)
    for name in names(found["items"]):
        await plane.admin.delete(f"{CRDS}/{name}")
    await plane.admin.wait_for(CRDS, lambda left: not left, what="the CRDs are gone")


def _is_ours_and_established(crd: Object) -> bool:
    return (
        crd["spec"]["group"] == GROUP and conditions(crd).get("Established", ("", ""))[0] == "True"
    )
