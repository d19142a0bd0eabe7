"""What an importer writes of one service: slices alone, or all that the Multi-Cluster API asks for.

A planner decides from what is visible and what exists, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Protocol

from clusters.model import (
    ChangeOp,
    ExportedService,
    LocalService,
    Manifest,
    ServiceKey,
    SliceChange,
)
from clusters.multicluster.conditions import instant
from clusters.multicluster.merge import merge
from clusters.multicluster.plan import Circumstances, full_plan, observed_of
from clusters.multicluster.service_export import export_change
from clusters.slice_manifests import Observed, observe
from clusters.slices import SliceSettings, plan
from replicator.staleness import Seen


class Planner(Protocol):
    """Decides the writes of one service."""

    def plan(
        self,
        key: ServiceKey,
        seen: Seen,
        owned: Sequence[Manifest],
        deletable: Callable[[str], bool],
        refusal: str,
    ) -> Sequence[SliceChange]:
        """Writes of ``key`` in order; ``refusal`` says why its last write failed, "" if none."""
        ...


class SlicePlanner:
    """Other clusters' endpoints as EndpointSlices.

    What was read from the slices of a service that has several is kept, so that a change costs the
    reading of those that changed: an object is read again when it is another one than it was.
    """

    def __init__(self) -> None:
        self._settings = SliceSettings()
        self._read: dict[ServiceKey, dict[int, Observed]] = {}
        """By the identity of the object, which what was read holds."""

    def plan(
        self,
        key: ServiceKey,
        seen: Seen,
        owned: Sequence[Manifest],
        deletable: Callable[[str], bool],
        refusal: str,  # noqa: ARG002 - slices do not tell of it
    ) -> Sequence[SliceChange]:
        """See :class:`Planner`."""
        known = self._read.pop(key, {})
        if len(owned) > 1:
            read = {id(one): known.get(id(one)) or observe(one) for one in owned}
            known = self._read[key] = read
        return plan(
            key,
            seen.endpoints,
            owned,
            settings=self._settings,
            deletable=deletable,
            read=lambda one: known.get(id(one)) or observe(one),
        )


class AdmittingPlanner:
    """What another planner says, in namespaces that may be written to; in others nothing is left.

    What was written there before goes, whatever is known of the clusters it came from.
    """

    def __init__(self, inner: Planner, include: Sequence[str], exclude: Sequence[str]) -> None:
        """``include`` and ``exclude`` are globs over namespaces; one that is excluded is out."""
        self._inner = inner
        self._include = include
        self._exclude = exclude

    def plan(
        self,
        key: ServiceKey,
        seen: Seen,
        owned: Sequence[Manifest],
        deletable: Callable[[str], bool],
        refusal: str,
    ) -> Sequence[SliceChange]:
        """See :class:`Planner`."""
        if self._admits(key.namespace):
            return self._inner.plan(key, seen, owned, deletable, refusal)
        written = (manifest for manifest in owned if manifest["kind"] != "ServiceExport")
        return [SliceChange(ChangeOp.DELETE, manifest) for manifest in written]

    def _admits(self, namespace: str) -> bool:
        return any(fnmatchcase(namespace, glob) for glob in self._include) and not any(
            fnmatchcase(namespace, glob) for glob in self._exclude
        )


class MulticlusterPlanner:
    """The merged import of all exporting clusters, ours among them (KEP-1645)."""

    def __init__(
        self,
        cluster: str,
        local: Callable[[ServiceKey], LocalService],
        exports: Callable[[ServiceKey], Mapping[str, ExportedService]],
        wall_ns: Callable[[], int],
        member: Callable[[str], bool],
    ) -> None:
        """``cluster`` is our own id, ``exports`` are what the other clusters export.

        ``member(cluster)`` says whether there may be such a cluster, as far as is known.
        """
        self._cluster = cluster
        self._local = local
        self._exports = exports
        self._wall_ns = wall_ns
        self._member = member

    def plan(
        self,
        key: ServiceKey,
        seen: Seen,
        owned: Sequence[Manifest],
        deletable: Callable[[str], bool],
        refusal: str,
    ) -> Sequence[SliceChange]:
        """See :class:`Planner`."""
        local = self._local(key)
        stated, endpoints = self._exports(key), dict(seen.endpoints)
        exports = {name: stated[name] for name in stated if name not in seen.unconfirmed}
        if local.export is not None:
            exports[self._cluster] = local.export
            endpoints[self._cluster] = list(local.endpoints)
        merged, now = merge(exports), instant(self._wall_ns())
        given = Circumstances(
            settings=SliceSettings(),
            deletable=lambda cluster: cluster == self._cluster or deletable(cluster),
            now=now,
            member=self._member,
            refusal=refusal,
        )
        writes = list(full_plan(key, merged, endpoints, observed_of(key, owned), given).changes)
        for manifest in owned:
            if manifest["kind"] == "ServiceExport" and seen.unconfirmed.isdisjoint(stated):
                told = export_change(
                    manifest, local.standing, merged, cluster=self._cluster, now=now
                )
                writes += [] if told is None else [told]
        return writes
