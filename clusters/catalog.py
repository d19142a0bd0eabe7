"""An in-memory index of one cluster's objects that answers by service.

The one piece shared by every kind of cluster and by ``encode``: objects go in by event or by
complete list, :meth:`ServiceCatalog.local` and :meth:`ServiceCatalog.owned` answer level-based.
Local objects are read once per change and kept as readings, not as manifests; only objects of ours
are kept whole: slices, and where the Multi-Cluster Services API is spoken also ServiceImports,
derived Services, and ServiceExports, whose status is ours.

Invariant: whatever changes an answer for a key returns that key in :class:`Touched`; what provably
does not (unknown fields, a trigger time alone, Endpoints behind slices, lock objects) returns
nothing.  An object of ours, or of another importer, is never local, whoever edits it (kubernetes.md
E11, M8).

No I/O and no threads; not safe against use from two threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, NamedTuple

from clusters import slice_names
from clusters.belonging import MULTICLUSTER_GROUP
from clusters.canonical import combine
from clusters.errors import ManifestError
from clusters.exports import (
    ExportFacts,
    ServiceFacts,
    export_facts,
    export_state,
    service_facts,
)
from clusters.manifests import Reference, reference
from clusters.model import LocalService, Manifest, ServiceKey, Skipped, Standing
from clusters.multicluster.names import derived_from, is_derived
from clusters.readings import (
    Reading,
    is_leader_election,
    read_endpoints,
    read_slice,
    service_label,
    skipped_key,
)
from clusters.settings import API_SERVER_SERVICE, ExportMode, NamespaceFilter

KINDS = {
    "EndpointSlice": "discovery.k8s.io/",
    "Endpoints": "v1",
    "Service": "v1",
    "ServiceExport": f"{MULTICLUSTER_GROUP}/",
    "ServiceImport": f"{MULTICLUSTER_GROUP}/",
    "Namespace": "v1",
}
"""Kinds the catalog understands, with the beginning of their apiVersion."""


_OBSERVED_GENERATION = frozenset({"ServiceExport", "ServiceImport"})
"""Kinds whose status names the generation it speaks of."""


class Touched(NamedTuple):
    """What a change may have changed: pass ``local`` and ``owned`` on to the two key sinks."""

    local: frozenset[ServiceKey] = frozenset()
    """Services whose :meth:`ServiceCatalog.local` may answer differently now."""
    owned: frozenset[ServiceKey] = frozenset()
    """Services for which an object of ours appeared, changed or went (or their namespace did)."""
    namespaces: frozenset[str] = frozenset()
    """Namespaces that became usable or ceased to be (created, terminating, gone)."""
    errors: tuple[ManifestError, ...] = ()
    """Objects of a list that could not be read; everything else of the list was applied."""


class _Role(Enum):
    """What an object is to us."""

    SLICE = auto()
    ENDPOINTS = auto()
    SERVICE = auto()
    EXPORT = auto()
    OWNED = auto()
    NAMESPACE = auto()
    OUTSIDE = auto()
    """Belongs to no service of ours; the content says why, None where that is no news."""


@dataclass(frozen=True, slots=True)
class _Record:
    """One object as held: its role and the part of it that we carry."""

    role: _Role
    key: ServiceKey | None
    content: Any
    uid: str | None = None
    version: str | None = None
    whole: Manifest | None = None
    """The object itself, when it is one of ours as well (a ServiceExport, for its status)."""

    def states_the_same(self, other: _Record) -> bool:
        """Same role, service and content: at most the object itself differs."""
        mine, others = (self.role, self.key, self.content), (other.role, other.key, other.content)
        return mine == others

    def means_the_same(self, other: _Record) -> bool:
        """Same role, service and content, whenever and in whatever version stated."""
        if (self.role, self.key) != (other.role, other.key):
            return False
        if isinstance(self.content, Reading) and isinstance(other.content, Reading):
            return self.content.states_the_same(other.content)
        if self.whole is not None and other.whole is not None:
            same_facts = self.role is _Role.OWNED or self.content == other.content
            return same_facts and _without_versions(self.whole) == _without_versions(other.whole)
        return bool(self.content == other.content)


def _without_versions(manifest: Manifest) -> Manifest:
    metadata = dict(manifest["metadata"])
    for field in ("resourceVersion", "managedFields"):
        metadata.pop(field, None)
    if manifest.get("kind") not in _OBSERVED_GENERATION:
        metadata.pop("generation", None)
    return {**manifest, "metadata": metadata}


class ServiceCatalog:
    """The objects of one cluster, by service; kinds: :data:`KINDS`."""

    def __init__(
        self,
        *,
        cluster: str,
        export: ExportMode,
        namespaces: NamespaceFilter,
        multicluster: bool = False,
    ) -> None:
        """Start empty; ``cluster`` is our own id.

        ``multicluster``: objects of the Multi-Cluster Services API are ours to write.
        """
        self.cluster = cluster
        self._multicluster = multicluster
        self._mode = export
        self._filter = namespaces
        self._objects: dict[Reference, _Record] = {}
        self._by_service: dict[ServiceKey, dict[Reference, _Record]] = {}
        self._owned: dict[ServiceKey, dict[Reference, _Record]] = {}
        self._answers: dict[ServiceKey, LocalService] = {}
        self._former_keys: dict[Reference, ServiceKey] = {}
        self._namespaces_seen = False
        self._arrivals = 0

    # ---- taking in -----------------------------------------------------------------------------

    def upsert(self, manifest: Manifest) -> Touched:
        """Take in one object (added or modified).

        Kinds the catalog does not know are ignored.  Raises
        :class:`~clusters.errors.ManifestError`, with the catalog unchanged, when the object cannot
        even be named; any lesser fault makes an entry of ``skipped``.
        """
        named = self._known(manifest)
        if named is None:
            return Touched()
        self._namespaces_seen |= named.kind == "Namespace"
        held = self._objects.get(named)
        uid, version = _identity(manifest)
        if held and uid and version and (held.uid, held.version) == (uid, version):
            return Touched()
        self._arrivals += 1
        record = replace(self._read(manifest, named), uid=uid, version=version)
        return self._put(named, held, record)

    def delete(self, manifest: Manifest) -> Touched:
        """Take out the object of this kind, namespace and name.

        Ignored when it is not held, or held under another uid (a late event of a predecessor).
        """
        named = self._known(manifest)
        held = None if named is None else self._objects.get(named)
        if named is None or held is None:
            return Touched()
        uid, _ = _identity(manifest)
        if uid and held.uid and uid != held.uid:
            return Touched()
        return self._put(named, held, None)

    def replace_all(self, kind: str, manifests: Iterable[Manifest]) -> Touched:
        """Make the objects of ``kind`` exactly ``manifests``, which must be a complete list.

        Items may lack ``kind``, as in an API server's lists.  Of an object given twice the last
        counts.
        """
        errors: list[ManifestError] = []
        listed: dict[Reference, Manifest] = {}
        for manifest in manifests:
            try:
                whole = {"kind": kind, **manifest}
                listed[reference(whole)] = whole
            except ManifestError as error:
                errors.append(error)
        if kind == "Namespace":
            self._namespaces_seen = True
        gone = [named for named in self._objects if named.kind == kind and named not in listed]
        changes = [self._put(named, self._objects[named], None) for named in gone]
        changes += [self.upsert(whole) for whole in listed.values()]
        return Touched(
            frozenset().union(*(change.local for change in changes)),
            frozenset().union(*(change.owned for change in changes)),
            frozenset().union(*(change.namespaces for change in changes)),
            tuple(errors),
        )

    @staticmethod
    def _known(manifest: Manifest) -> Reference | None:
        """What the object is called; None for a kind, or a group, that is not ours to read."""
        kind, version = manifest.get("kind"), manifest.get("apiVersion")
        group = KINDS.get(kind) if isinstance(kind, str) else None
        if group is None or not (version is None or str(version).startswith(group)):
            return None
        return reference(manifest)

    # ---- reading -------------------------------------------------------------------------------

    def _read(self, manifest: Manifest, named: Reference) -> _Record:
        if named.kind == "EndpointSlice":
            return self._read_slice(manifest, named)
        if named.kind == "Namespace":
            return _Record(_Role.NAMESPACE, None, _namespace(manifest))
        if named.kind == "ServiceImport" or (named.kind == "Service" and is_derived(manifest)):
            return self._read_import(manifest, named)
        key = ServiceKey(named.namespace, named.name)
        if named.kind == "Endpoints":
            return self._read_endpoints(key, manifest, named)
        return self._read_offer(key, manifest, named)

    def _read_offer(self, key: ServiceKey, manifest: Manifest, named: Reference) -> _Record:
        if not self._filter.admits_service(key):
            return _Record(_Role.OUTSIDE, None, None)
        if named.kind == "Service":
            return _Record(_Role.SERVICE, key, service_facts(manifest, named))
        whole = manifest if self._multicluster else None
        return _Record(_Role.EXPORT, key, export_facts(manifest), whole=whole)

    def _read_import(self, manifest: Manifest, named: Reference) -> _Record:
        """A ServiceImport, or a derived Service, which is no service of the cluster itself."""
        key: ServiceKey | None = ServiceKey(named.namespace, named.name)
        if named.kind == "Service":
            key = derived_from(manifest)
        if key is None or not self._multicluster:
            return _Record(_Role.OUTSIDE, None, None)
        return _Record(_Role.OWNED, key, manifest, whole=manifest)

    def _read_endpoints(self, key: ServiceKey, manifest: Manifest, named: Reference) -> _Record:
        if is_leader_election(manifest):
            return _outside("leader_election", named)
        if not self._filter.admits_service(key):
            return self._excluded(key, named)
        return _Record(_Role.ENDPOINTS, key, read_endpoints(manifest, named, self._arrivals))

    def _read_slice(self, manifest: Manifest, named: Reference) -> _Record:
        if slice_names.is_ours(manifest):
            return self._read_owned(manifest, named)
        if slice_names.is_imported(manifest):
            return _outside("imported", named)
        if is_leader_election(manifest):
            return _outside("leader_election", named)
        service, fault = service_label(manifest)
        if service is None:
            return _outside(fault, named)
        key = ServiceKey(named.namespace, service)
        if not self._filter.admits_service(key):
            return self._excluded(key, named)
        return _Record(_Role.SLICE, key, read_slice(manifest, named, self._arrivals))

    def _read_owned(self, manifest: Manifest, named: Reference) -> _Record:
        """A slice of ours; stripped of its key, it belongs where it was seen to belong before."""
        service = slice_names.service_of(manifest)
        if service is not None:
            key = ServiceKey(named.namespace, service)
        elif named in self._former_keys:
            key = self._former_keys[named]
        else:
            return _outside("own_output", named)
        return _Record(_Role.OWNED, key, manifest, whole=manifest)

    @staticmethod
    def _excluded(key: ServiceKey, named: Reference) -> _Record:
        reason = "api_server" if key == API_SERVER_SERVICE else "namespace_excluded"
        return _outside(reason, named)

    # ---- holding -------------------------------------------------------------------------------

    def _put(self, named: Reference, held: _Record | None, record: _Record | None) -> Touched:
        """Hold ``record`` in place of ``held`` (either may be none); returns what that touches."""
        touched = Touched()
        if held and record and held.means_the_same(record):
            if isinstance(held.content, Reading) and held.content.trigger == record.content.trigger:
                record = replace(record, content=held.content)
            elif held.role is _Role.SLICE and self._slices(held.key) > 1:
                touched = self._touched(named, held, record)
        else:
            touched = self._touched(named, held, record)
        if held is not None:
            self._take_out(named, held)
        if record is not None:
            self._put_in(named, record)
        else:
            self._former_keys.pop(named, None)
        for key in touched.local:
            self._answers.pop(key, None)
        return touched

    def _slices(self, key: ServiceKey | None) -> int:
        """How many local slices a service has."""
        records = self._by_service.get(key, {}) if key else {}
        return sum(record.role is _Role.SLICE for record in records.values())

    def _touched(self, named: Reference, held: _Record | None, record: _Record | None) -> Touched:
        local: set[ServiceKey] = set()
        owned: set[ServiceKey] = set()
        for item in (held, record):
            if item is None:
                continue
            if item.role is _Role.NAMESPACE:
                within = (key for key in self._owned if key.namespace == named.name)
                return Touched(owned=frozenset(within), namespaces=frozenset({named.name}))
            if item.key is None:
                continue
            if item.whole is not None:
                owned.add(item.key)
            if item.role is _Role.OWNED or (held and record and held.states_the_same(record)):
                continue
            if item.role is not _Role.ENDPOINTS or not self._slices(item.key):
                local.add(item.key)
        return Touched(frozenset(local), frozenset(owned))

    def _indexes_of(self, record: _Record) -> list[dict[ServiceKey, dict[Reference, _Record]]]:
        indexes = [] if record.role is _Role.OWNED else [self._by_service]
        return indexes if record.whole is None else [*indexes, self._owned]

    def _put_in(self, named: Reference, record: _Record) -> None:
        self._objects[named] = record
        if record.key is None:
            return
        for index in self._indexes_of(record):
            index.setdefault(record.key, {})[named] = record
        if record.role is _Role.OWNED:
            self._former_keys[named] = record.key

    def _take_out(self, named: Reference, record: _Record) -> None:
        del self._objects[named]
        if record.key is None:
            return
        for index in self._indexes_of(record):
            del index[record.key][named]
            if not index[record.key]:
                del index[record.key]

    # ---- answers -------------------------------------------------------------------------------

    def local(self, key: ServiceKey) -> LocalService:
        """What the cluster itself says about ``key``; empty when it says nothing."""
        known = self._answers.get(key)
        if known is None:
            known = self._compute(key)
            if key in self._by_service:
                self._answers[key] = known
        return known

    def _compute(self, key: ServiceKey) -> LocalService:
        records = self._by_service.get(key, {}).values()
        slices = [record.content for record in records if record.role is _Role.SLICE]
        single: dict[_Role, Any] = {record.role: record.content for record in records}
        fallback: Reading | None = single.get(_Role.ENDPOINTS)
        service: ServiceFacts | None = single.get(_Role.SERVICE)
        export: ExportFacts | None = single.get(_Role.EXPORT)
        endpoints, skipped = combine(slices, fallback)
        has_endpoints = bool(slices) or fallback is not None
        state = export_state(self._mode, service, export, has_endpoints=has_endpoints)
        return LocalService(key, endpoints, state, skipped, _standing(service))

    def services(self) -> frozenset[ServiceKey]:
        """Services with anything local: a slice, Endpoints, Service or ServiceExport."""
        return frozenset(self._by_service)

    def owned(self, key: ServiceKey) -> tuple[Manifest, ...]:
        """Objects of ours for ``key`` as last seen, by kind and name; not to be changed."""
        records = self._owned.get(key, {})
        found = (records[named].whole for named in sorted(records))
        return tuple(manifest for manifest in found if manifest is not None)

    def owned_services(self) -> frozenset[ServiceKey]:
        """Services for which an object of ours exists."""
        return frozenset(self._owned)

    def unassigned(self) -> tuple[Skipped, ...]:
        """Objects that belong to no service of ours, and why (no label, imported, a lock)."""
        found = (
            record.content
            for record in self._objects.values()
            if record.role is _Role.OUTSIDE and record.content is not None
        )
        return tuple(sorted(found, key=skipped_key))

    def namespace_usable(self, name: str) -> bool | None:
        """Whether objects can be created there; None while no Namespace was ever listed or seen."""
        record = self._objects.get(Reference("Namespace", "", name))
        if record is None:
            return False if self._namespaces_seen else None
        return bool(record.content[0])

    def namespace_uid(self, name: str) -> str | None:
        """Give a namespace's uid (kube-system's identifies the cluster); None when not seen."""
        record = self._objects.get(Reference("Namespace", "", name))
        return None if record is None else record.uid


def _identity(manifest: Manifest) -> tuple[str | None, str | None]:
    """(uid, resourceVersion) as far as they are texts; compared for equality only."""
    metadata = manifest["metadata"]
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    return (
        uid if isinstance(uid, str) else None,
        version if isinstance(version, str) else None,
    )


def _standing(service: ServiceFacts | None) -> Standing:
    if service is None:
        return Standing.NO_SERVICE
    return Standing.INVALID_TYPE if service.external else Standing.VALID


def _namespace(manifest: Manifest) -> tuple[bool, str | None]:
    """(objects can be created there, uid) of a Namespace."""
    status = manifest.get("status")
    phase = status.get("phase") if isinstance(status, dict) else None
    ending = manifest["metadata"].get("deletionTimestamp") is not None
    return phase != "Terminating" and not ending, _identity(manifest)[0]


def _outside(reason: str, named: Reference) -> _Record:
    return _Record(_Role.OUTSIDE, None, Skipped(reason, str(named)))


def services_of(
    objects: Iterable[Manifest],
    *,
    cluster: str,
    export: ExportMode = ExportMode.ALL,
    namespaces: NamespaceFilter | None = None,
) -> dict[ServiceKey, LocalService]:
    """Every service of a complete set of objects, by key, in order.

    Raises :class:`~clusters.errors.ManifestError` for an object that cannot be named.
    """
    catalog = ServiceCatalog(
        cluster=cluster, export=export, namespaces=namespaces or NamespaceFilter()
    )
    for manifest in objects:
        catalog.upsert(manifest)
    return {key: catalog.local(key) for key in sorted(catalog.services())}
