"""To what an object of ours belongs: its ServiceImport, whose end is its own (KEP-1645).

The reference holds the uid the import has at present, so that what belonged to a former import of
the same name is taken over and not collected with it.  References of others are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from clusters.model import Manifest

MULTICLUSTER_GROUP = "multicluster.x-k8s.io"
IMPORT_KIND = "ServiceImport"
_API_VERSION = f"{MULTICLUSTER_GROUP}/v1beta1"


@dataclass(frozen=True, slots=True)
class Belonging:
    """To what the slices of one service belong."""

    owner: Manifest | None = field(default=None, hash=False)
    """Reference to the ServiceImport; None while it does not exist."""
    proxied: str | None = None
    """Name of the derived Service for which kube-proxy takes them; None for a headless one."""


NOWHERE = Belonging()
"""Slices that belong to nothing."""


def owner_of(service_import: Manifest) -> Manifest:
    """The reference to a ServiceImport as it now exists; in no way hinders its deletion."""
    metadata = service_import["metadata"]
    return {
        "apiVersion": _API_VERSION,
        "kind": IMPORT_KIND,
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
    }


def owners(manifest: Manifest) -> list[Any]:
    """The owner references of an object, whatever stands there; never fails."""
    found = manifest["metadata"].get("ownerReferences")
    return found if isinstance(found, list) else []


def is_import_owner(owner: object) -> bool:
    """Whether an owner reference is to a ServiceImport."""
    return (
        isinstance(owner, dict)
        and owner.get("kind") == IMPORT_KIND
        and str(owner.get("apiVersion")).startswith(f"{MULTICLUSTER_GROUP}/")
    )


def owned_by(manifest: Manifest, owner: Manifest | None) -> list[Any]:
    """Owner references of ``manifest`` with ``owner`` for its only ServiceImport."""
    others = [item for item in owners(manifest) if not is_import_owner(item)]
    return others if owner is None else [*others, owner]
