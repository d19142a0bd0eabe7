"""The Kubernetes cluster for the contract suite: against a tiny API server in memory, over HTTP.

The suite changes the cluster as its users would (:meth:`put`, :meth:`remove`), sees what was
written (:meth:`stored`), and lets the cluster follow (:meth:`until`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from clusters.base import Cluster
from clusters.model import ServiceKey
from tests.integration.kubernetes_bed import Bed, bed_of
from tests.integration.memory_api import KINDS
from tests.integration.scripted_api import eventually

_PLURALS = {kind: plural for plural, (kind, _) in KINDS.items()}


class KubernetesHarness:
    """One running cluster with its keys as announced."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed

    @property
    def cluster(self) -> Cluster:
        return self._bed.cluster

    @property
    def local_keys(self) -> list[ServiceKey]:
        """Keys announced as locally touched, in order."""
        return self._bed.local

    @property
    def owned_keys(self) -> list[ServiceKey]:
        """Keys announced as touched in what we own, in order."""
        return self._bed.owned

    async def put(self, manifest: dict[str, Any]) -> None:
        """Create or replace an object as a user of the cluster."""
        self._bed.memory.put(_PLURALS[manifest["kind"]], manifest)

    async def remove(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object as a user of the cluster."""
        self._bed.memory.remove(_PLURALS[kind], namespace, name)

    async def stored(self, kind: str = "EndpointSlice") -> list[dict[str, Any]]:
        """All objects of a kind as the cluster holds them."""
        return list(self._bed.memory.objects[_PLURALS[kind]].values())

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the cluster has followed; no time passes on its clock."""
        await eventually(condition)

    async def time_passes(self, seconds: float) -> None:
        """Let time pass on the cluster's clock."""
        await self._bed.api.time_passes(seconds)


@asynccontextmanager
async def kubernetes() -> AsyncIterator[KubernetesHarness]:
    """A running, empty, synced cluster with the namespaces default, kube-system and shop."""
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        yield KubernetesHarness(bed)
