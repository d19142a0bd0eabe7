"""How the objects of the Multi-Cluster Services API are named, marked and known again.

A ServiceImport of ours carries :data:`ANNOTATION_EXPORTED`; a derived Service carries
:data:`ANNOTATION_DERIVED` and belongs to the import.  A derived Service, ours or another
implementation's, is never read as a Service of the cluster itself.

Source: KEP-1645, mcs-api v0.5.2.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b32hexencode
from collections.abc import Iterable

from clusters.belonging import MULTICLUSTER_GROUP, is_import_owner, owners
from clusters.model import Manifest, ServiceKey
from clusters.slice_names import texts

API_VERSION = f"{MULTICLUSTER_GROUP}/v1beta1"
ANNOTATION_DERIVED_SERVICE = "multicluster.kubernetes.io/derived-service"
"""On a ServiceImport: name of its derived Service."""
ANNOTATION_EXPORTED = "replicator.dev/exported"
"""On a ServiceImport of ours: JSON of the names that exports gave to its labels and annotations."""
ANNOTATION_DERIVED = "replicator.dev/derived-from"
"""On a derived Service of ours: the name of the service."""
_HASH_CHARACTERS = 10


def derived_name(key: ServiceKey) -> str:
    """Name of the derived Service: the same in every cluster and for ever."""
    hashed = hashlib.sha256(f"{key.namespace}/{key.name}".encode()).digest()
    return f"derived-{b32hexencode(hashed).decode().lower()[:_HASH_CHARACTERS]}"


def derived_from(manifest: Manifest) -> ServiceKey | None:
    """The service a Service of ours is derived for; None for any other Service."""
    name = texts(manifest, "annotations").get(ANNOTATION_DERIVED)
    metadata = manifest["metadata"]
    if name is None:
        name = next((str(o.get("name")) for o in owners(manifest) if is_import_owner(o)), None)
    key = ServiceKey(str(metadata.get("namespace")), name or "")
    return key if name is not None and metadata.get("name") == derived_name(key) else None


def is_derived(manifest: Manifest) -> bool:
    """Whether a Service was derived from imports, by us or by another implementation."""
    return ANNOTATION_DERIVED in texts(manifest, "annotations") or any(
        map(is_import_owner, owners(manifest))
    )


def exported_names(manifest: Manifest) -> tuple[frozenset[str], frozenset[str]]:
    """Names of (labels, annotations) that exports had put on an import of ours."""
    try:
        found = json.loads(texts(manifest, "annotations").get(ANNOTATION_EXPORTED, ""))
    except (ValueError, RecursionError):
        return frozenset(), frozenset()
    lists = [found.get(part) for part in ("labels", "annotations")] if type(found) is dict else []
    names = [
        frozenset(item for item in listed if isinstance(item, str))
        for listed in lists
        if isinstance(listed, list)
    ]
    return (names[0], names[1]) if len(names) == len(lists) == 2 else (frozenset(), frozenset())  # noqa: PLR2004


def exported_mark(labels: Iterable[str], annotations: Iterable[str]) -> str:
    """Value of :data:`ANNOTATION_EXPORTED`."""
    found = {"annotations": sorted(annotations), "labels": sorted(labels)}
    return json.dumps(found, separators=(",", ":"))


def is_our_import(manifest: Manifest) -> bool:
    """Whether a ServiceImport was written by us."""
    return ANNOTATION_EXPORTED in texts(manifest, "annotations")
