"""The kinds we watch and how the Kubernetes API addresses them.

Plain values: which collections exist, under which paths, and the query strings of lists and
watches. A list is always asked for without a resourceVersion, which is a consistent read; version
"0" (any state a server happens to have) is never used, so nothing that was seen can be un-seen.

Source: Kubernetes API concepts (resource versions, chunked lists, bookmarks).
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from clusters.model import Manifest

Name = tuple[str, str]
"""Namespace and name of an object."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One watched collection, over all namespaces."""

    name: str
    """Plural name, as in paths, permissions and health."""
    kind: str
    group: str
    """API group; "" is the core group."""
    versions: tuple[str, ...]
    """Served versions to try, best first."""
    optional: bool = False
    """Whether a server without this collection (404) is lived with; it then counts as listed."""
    cure: str = ""
    """What to do when the collection does not exist."""

    def path(self, version: str) -> str:
        """Path of the collection in one API version."""
        root = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        return f"{root}/{self.name}"

    def api_version(self, version: str) -> str:
        """``apiVersion`` of its objects."""
        return f"{self.group}/{version}" if self.group else version


ENDPOINT_SLICES = Resource("endpointslices", "EndpointSlice", "discovery.k8s.io", ("v1",))
SERVICES = Resource("services", "Service", "", ("v1",), optional=True)
ENDPOINTS = Resource("endpoints", "Endpoints", "", ("v1",), optional=True)
NAMESPACES = Resource("namespaces", "Namespace", "", ("v1",), optional=True)
SERVICE_EXPORTS = Resource(
    "serviceexports",
    "ServiceExport",
    "multicluster.x-k8s.io",
    ("v1beta1", "v1alpha1"),
    optional=True,
    cure="install the Multi-Cluster Services CRDs, or set source.export to all or annotated",
)

SERVICE_IMPORTS = Resource(
    "serviceimports",
    "ServiceImport",
    "multicluster.x-k8s.io",
    ("v1beta1", "v1alpha1"),
    optional=True,
    cure="install the Multi-Cluster Services CRDs, or set target.mode to endpointslices",
)
WRITTEN = {one.kind: one for one in (ENDPOINT_SLICES, SERVICES, SERVICE_IMPORTS, SERVICE_EXPORTS)}
"""Collections we write to, by kind; always in the best version."""


def list_query(limit: int, token: str | None) -> dict[str, str]:
    """Query of one page of a consistent list; ``token`` continues an earlier page."""
    query = {"limit": str(limit)}
    if token is not None:
        query["continue"] = token
    return query


def watch_query(version: str, seconds: int) -> dict[str, str]:
    """Query of a watch from ``version`` that the server should end after ``seconds``."""
    return {
        "watch": "true",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(seconds),
    }


def object_path(
    resource: Resource, namespace: str, name: str | None = None, subresource: str = ""
) -> str:
    """Path of a collection in one namespace, of one of its objects, or of a part of that."""
    root = resource.path(resource.versions[0]).removesuffix(f"/{resource.name}")
    parts = [root, "namespaces", quote(namespace, safe=""), resource.name]
    if name is not None:
        parts.append(quote(name, safe=""))
    return "/".join([*parts, subresource] if subresource else parts)


def version_of(manifest: Manifest) -> str | None:
    """The object's resourceVersion, or None when it states none that could be asked for."""
    metadata = manifest.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) and version not in {"", "0"} else None


def name_of(manifest: Manifest) -> Name:
    """Namespace and name; "None" for what is not there."""
    metadata = manifest.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return str(metadata.get("namespace")), str(metadata.get("name"))


def trimmed(manifest: Manifest) -> Manifest:
    """The same object without the bookkeeping of who wrote which field, often half of its size."""
    metadata = manifest.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return manifest
