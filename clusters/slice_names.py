"""How an EndpointSlice of ours is named, labelled and recognised again.

The name is a function of namespace, service, source cluster, family, port set and shard, ends in a
hash of them, and begins with :data:`NAME_PREFIX`, whose dot no slice named by Kubernetes' own
controllers can have there.  The same key is kept in an annotation.  So an object of ours is known
by any one of name, label or annotation, found again by its own key, and never by taking its name
apart (kubernetes.md M2, M8).
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b32hexencode
from dataclasses import dataclass
from typing import Any, cast

from clusters.model import MANAGED_BY, Manifest, PortSet, ServiceKey

NAME_PREFIX = "crdt-replicator."
LABEL_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
LABEL_SERVICE = "multicluster.kubernetes.io/service-name"
LABEL_SOURCE_CLUSTER = "multicluster.kubernetes.io/source-cluster"
LABEL_PROXIED = "kubernetes.io/service-name"
"""Only with the name of a derived Service: kube-proxy routes that Service to the slice."""
ANNOTATION_KEY = "replicator.dev/slice-key"
"""JSON ``[service, cluster, family, ports digest, shard]``: what the slice is for."""
ANNOTATION_PODS = "replicator.dev/origin-pods"
"""JSON object of address to pod name in the source cluster; for people, never read back."""

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
DNS_SUBDOMAIN = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_LONGEST_LABEL = 63
_LONGEST_NAME = 253
_HASH_CHARACTERS = 16


def is_dns_label(text: str) -> bool:
    """Whether ``text`` is a DNS label as Kubernetes takes it (namespace, port name, hostname)."""
    return DNS_LABEL.fullmatch(text) is not None


def is_dns_name(text: str) -> bool:
    """Whether ``text`` is a DNS subdomain as Kubernetes takes it (an object's name)."""
    return len(text) <= _LONGEST_NAME and DNS_SUBDOMAIN.fullmatch(text) is not None


def _digest(value: object) -> str:
    """Short hash of a JSON value: lower-case base32hex, the same for ever."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    hashed = hashlib.sha256(text.encode()).digest()
    return b32hexencode(hashed).decode().lower()[:_HASH_CHARACTERS]


def ports_digest(ports: PortSet) -> str:
    """Short stable hash of a canonical port set."""
    if ports is None:
        return _digest(None)
    return _digest([[port.name, port.port, port.protocol, port.app_protocol] for port in ports])


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """What one of our slices may hold: one source cluster, one address family, one port set."""

    cluster: str
    family: str
    ports: str
    """:func:`ports_digest` of the port set."""


def slice_name(service: ServiceKey, group: GroupKey, shard: int) -> str:
    """Name of the slice number ``shard`` of a group; at most 253 characters."""
    key = [service.namespace, service.name, group.cluster, group.family, group.ports, shard]
    readable = service.name[:_LONGEST_LABEL].rstrip("-.")
    return f"{NAME_PREFIX}{readable}.{group.cluster}-{_digest(key)}"


def key_annotation(service: str, group: GroupKey, shard: int) -> str:
    """Value of :data:`ANNOTATION_KEY`."""
    key = [service, group.cluster, group.family, group.ports, shard]
    return json.dumps(key, separators=(",", ":"))


def label_value(text: str) -> str:
    """``text`` as a label value: itself when it fits, else its start and a hash."""
    if len(text) <= _LONGEST_LABEL:
        return text
    kept = text[: _LONGEST_LABEL - _HASH_CHARACTERS - 1].rstrip("-.")
    return f"{kept}-{_digest(text)}"


def texts(manifest: Manifest, field: str) -> dict[str, str]:
    """Labels or annotations of an object as far as they are texts; never fails."""
    metadata = manifest.get("metadata")
    found: Any = metadata.get(field) if isinstance(metadata, dict) else None
    if not isinstance(found, dict):
        return {}
    return {
        name: value
        for name, value in found.items()
        if isinstance(name, str) and isinstance(value, str)
    }


def _name(manifest: Manifest) -> str:
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def is_ours(manifest: Manifest) -> bool:
    """Whether an EndpointSlice was written by us: by label, by name, or by its key annotation.

    Any one is enough, so that stripping labels never turns an import into an export.
    """
    return (
        texts(manifest, "labels").get(LABEL_MANAGED_BY) == MANAGED_BY
        or _name(manifest).startswith(NAME_PREFIX)
        or ANNOTATION_KEY in texts(manifest, "annotations")
    )


def is_imported(manifest: Manifest) -> bool:
    """Whether a slice came from another cluster, whoever made it: never read as local."""
    return LABEL_SOURCE_CLUSTER in texts(manifest, "labels")


def stored_key(manifest: Manifest) -> tuple[str, GroupKey, int] | None:
    """(service, group, shard) from the key annotation; None when it is missing or spoiled."""
    text = texts(manifest, "annotations").get(ANNOTATION_KEY)
    try:
        key = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(key, list) or [type(item) for item in key] != [str, str, str, str, int]:
        return None
    service, cluster, family, ports, shard = cast("tuple[str, str, str, str, int]", tuple(key))
    return service, GroupKey(cluster, family, ports), shard


def service_of(manifest: Manifest) -> str | None:
    """Name of the service a slice of ours is for: by its key, else by its label."""
    stored = stored_key(manifest)
    if stored is not None:
        return stored[0]
    return texts(manifest, "labels").get(LABEL_SERVICE) or None


def source_cluster_of(manifest: Manifest) -> str | None:
    """Source cluster of a slice of ours: by its key, else by its label."""
    stored = stored_key(manifest)
    if stored is not None:
        return stored[1].cluster
    return texts(manifest, "labels").get(LABEL_SOURCE_CLUSTER) or None
