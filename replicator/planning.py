"""Elements to the EndpointSlices a cluster would hold: what ``replicator plan`` answers.

Reads what ``encode`` or ``snapshot export`` wrote.  Only other clusters' endpoints are written, and
only those whose address may be visible (kubernetes.md E8).  Of an endpoint given several times the
newest stamp counts.  Pure.  Mode mcs: :mod:`replicator.multicluster_planning`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from clusters.catalog import ServiceCatalog
from clusters.errors import ManifestError
from clusters.manifests import Located
from clusters.model import ChangeOp, Endpoint, ExportedService, Manifest, PortSet, ServiceKey
from clusters.settings import ExportMode, NamespaceFilter
from clusters.slices import Plan, SliceSettings, full_plan
from crdt import Stamp
from replicator.errors import InputError
from replicator.items import Item, parse_endpoint, parse_item, parse_tag
from replicator.projection import endpoint_value, may_be_visible

Json = dict[str, Any]
_CURE = "give a file that encode or snapshot export wrote"
_ELEMENT_FIELDS = 4
"""Kind, cluster, namespace, service: how elements of services begin."""


def read_items(document: object, source: str) -> list[Item]:
    """The endpoints in a decoded document: its ``items``, else what its ``entries`` make visible.

    Raises :class:`InputError` naming the place (codes: :func:`~replicator.items.parse_item`).
    """
    if not isinstance(document, dict):
        message = f"{source}: it is not a JSON object"
        raise InputError(message, cure=_CURE)
    for name, read in (("items", _from_items), ("entries", _from_entries)):
        rows = document.get(name)
        if isinstance(rows, list):
            return read(rows, source)
    message = f"{source}: it has no list of items"
    raise InputError(message, cure=_CURE)


def _from_items(rows: list[Any], source: str) -> list[Item]:
    _refuse_manifests(rows, source)
    return [
        parse_item(row, f"{source}: items[{index}]")
        for index, row in enumerate(rows)
        if not _is_another_kind(row)
    ]


def _is_another_kind(row: object) -> bool:
    """An item of a kind that a newer version shows: none of ours to read."""
    kind = row.get("kind") if isinstance(row, dict) else None
    return isinstance(kind, str) and kind != "endpoint"


def _refuse_manifests(rows: list[Any], source: str) -> None:
    """Raise :class:`InputError` for Kubernetes objects, which are not what encode made of them."""
    for index, row in enumerate(rows):
        if isinstance(row, dict) and "apiVersion" in row and "metadata" in row:
            message = f"{source}: items[{index}] is a Kubernetes object, not an element"
            raise InputError(message, cure="run `replicator encode` on it first")


def _from_entries(rows: list[Any], source: str) -> list[Item]:
    """Endpoints from entries of a snapshot: added, and of a service that is exported."""
    found: list[Item] = []
    exported: set[tuple[str, ServiceKey]] = set()
    for index, row in enumerate(rows):
        where = f"{source}: entries[{index}]"
        stamp, element = _entry(row, where)
        if element[0] not in ("endpoint", "export") or row.get("op") != "add":
            continue
        key = _entry_key(element, where)
        if element[0] == "export":
            exported.add((stamp.cluster, key))
        else:
            found.append(Item(key, _entry_endpoint(element, row.get("value"), where), stamp))
    return [item for item in found if (item.stamp.cluster, item.key) in exported]


def read_exports(document: object, source: str) -> list[StatedExport]:
    """Export states that the ``entries`` of a decoded document add; none where it has no entries.

    Raises :class:`InputError` naming the place.
    """
    rows = document.get("entries") if isinstance(document, dict) else None
    found: list[StatedExport] = []
    for index, row in enumerate(rows if isinstance(rows, list) else []):
        where = f"{source}: entries[{index}]"
        stamp, element = _entry(row, where)
        if element[0] != "export" or row.get("op") != "add":
            continue
        value = row.get("value")
        fields = value if isinstance(value, dict) else {}
        properties, created_at = fields.get("properties", {}), fields.get("created_at")
        if not isinstance(properties, dict) or not isinstance(created_at, str | None):
            message = f"{where}: the value is no export state"
            raise InputError(message, cure=_CURE)
        export = ExportedService(created_at, tuple(sorted(properties.items())))
        found.append(StatedExport(_entry_key(element, where), export, stamp))
    return found


def _entry(row: object, where: str) -> tuple[Stamp, list[Any]]:
    element = row.get("element") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(element, list) or not element:
        message = f"{where}: element is not a list"
        raise InputError(message, cure=_CURE)
    return parse_tag(row.get("tag"), where), element


def _entry_key(element: list[Any], where: str) -> ServiceKey:
    if len(element) < _ELEMENT_FIELDS or not all(
        isinstance(item, str) for item in element[:_ELEMENT_FIELDS]
    ):
        message = f"{where}: element names no service"
        raise InputError(message, cure=_CURE)
    return ServiceKey(element[2], element[3])


def _entry_endpoint(element: list[Any], value: object, where: str) -> Endpoint:
    *_, address, ports = element
    names = ("name", "port", "protocol", "app_protocol")
    if isinstance(ports, list):
        ports = [
            dict(zip(names, port, strict=False)) if isinstance(port, list) else port
            for port in ports
        ]
    state = value if isinstance(value, dict) else {}
    return parse_endpoint({**state, "address": address, "ports": ports}, where)


@dataclass(frozen=True, slots=True)
class StatedExport:
    """That a cluster, the stamp's, exports a service."""

    key: ServiceKey
    export: ExportedService
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Planned:
    """What would be written, and what would not."""

    objects: tuple[Manifest, ...] = ()
    creates: tuple[Manifest, ...] = ()
    updates: tuple[Manifest, ...] = ()
    deletes: tuple[Manifest, ...] = ()
    warnings: tuple[str, ...] = ()

    def listing(self) -> Json:
        """All objects the cluster would hold, as a Kubernetes List."""
        return {"apiVersion": "v1", "kind": "List", "items": list(self.objects)}

    def writes(self) -> Json:
        """The writes that lead there."""
        return {
            "creates": list(self.creates),
            "updates": list(self.updates),
            "deletes": list(self.deletes),
        }


@dataclass(slots=True)
class Wanted:
    """Newest statements by service, source cluster and identity."""

    found: dict[ServiceKey, dict[str, dict[tuple[str, PortSet], Item]]] = field(
        default_factory=dict
    )
    warnings: list[str] = field(default_factory=list)

    def take(self, item: Item) -> None:
        """Take in one statement, unless its address must not be visible."""
        cluster = item.stamp.cluster
        if not may_be_visible(item.endpoint.address):
            self.warnings.append(
                f"{item.key} of {cluster}: {item.endpoint.address!a} must not be visible"
            )
            return
        rows = self.found.setdefault(item.key, {}).setdefault(cluster, {})
        held = rows.get(item.endpoint.identity)
        if held is None or _rank(held) < _rank(item):
            rows[item.endpoint.identity] = item

    def remote(self, key: ServiceKey) -> dict[str, list[Endpoint]]:
        """Endpoints of a service by source cluster."""
        return {
            cluster: [item.endpoint for item in rows.values()]
            for cluster, rows in self.found.get(key, {}).items()
        }


def _rank(item: Item) -> tuple[Stamp, bytes]:
    """Newer stamp first, then the larger canonical bytes, as in the replicated set."""
    return (item.stamp, endpoint_value(item.endpoint))


def plan_objects(
    cluster: str,
    items: Iterable[Item],
    existing: Iterable[Located] = (),
    settings: SliceSettings | None = None,
) -> Planned:
    """What ``cluster`` would hold and write, given what others offer and what exists.

    ``existing`` may hold any objects; only slices of ours count.  Raises :class:`InputError` naming
    the place of one that cannot be read.
    """
    settings = settings or SliceSettings()
    wanted = Wanted()
    for item in items:
        if item.stamp.cluster != cluster:
            wanted.take(item)
    catalog = index_of(cluster, existing)
    written = Writes(list(wanted.warnings))
    for key in sorted({*wanted.found, *catalog.owned_services()}):
        remote, observed = wanted.remote(key), catalog.owned(key)
        plan = full_plan(key, remote, observed, settings=settings, deletable=lambda _: True)
        written.add(key, observed, plan)
    return written.planned()


@dataclass(slots=True)
class Writes:
    """Plans of services, put together."""

    warnings: list[str]
    objects: list[Manifest] = field(default_factory=list)
    by_op: dict[ChangeOp, list[Manifest]] = field(
        default_factory=lambda: {op: [] for op in ChangeOp}
    )

    def add(self, key: ServiceKey, observed: Iterable[Manifest], plan: Plan) -> None:
        """Take in the plan of one service, whose objects are ``observed`` before."""
        held = {_named(manifest): manifest for manifest in observed}
        for change in plan.changes:
            self.by_op[change.op].append(change.manifest)
            if change.op is ChangeOp.DELETE:
                held.pop(_named(change.manifest), None)
            else:
                held[_named(change.manifest)] = change.manifest
        self.objects += (held[name] for name in sorted(held))
        self.warnings += [
            f"{key} of {item.cluster}: {item.endpoints} endpoints not written: {item.reason}"
            for item in plan.refused
        ]

    def planned(self) -> Planned:
        """All of it."""
        return Planned(
            objects=tuple(self.objects),
            creates=tuple(self.by_op[ChangeOp.CREATE]),
            updates=tuple(self.by_op[ChangeOp.UPDATE]),
            deletes=tuple(self.by_op[ChangeOp.DELETE]),
            warnings=tuple(self.warnings),
        )


def _named(manifest: Manifest) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


def index_of(
    cluster: str, existing: Iterable[Located], *, multicluster: bool = False
) -> ServiceCatalog:
    """Existing objects by service.  Raises :class:`InputError` for one that cannot be read."""
    catalog = ServiceCatalog(
        cluster=cluster,
        export=ExportMode.ALL,
        namespaces=NamespaceFilter(),
        multicluster=multicluster,
    )
    for item in existing:
        try:
            catalog.upsert(item.manifest)
        except ManifestError as error:
            message = f"{item.place}: {error.message}"
            raise InputError(message, cure=error.cure) from error
    return catalog
