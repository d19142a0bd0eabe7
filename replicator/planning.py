"""Elements to the EndpointSlices a cluster would hold: what ``replicator plan`` answers.

Reads what ``encode`` or ``snapshot export`` wrote.  Only other clusters' endpoints are written, and
only those whose address may be visible (kubernetes.md E8).  Of an endpoint given several times the
newest stamp counts.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from clusters.catalog import ServiceCatalog
from clusters.errors import ManifestError
from clusters.manifests import Located
from clusters.model import ChangeOp, Endpoint, Manifest, PortSet, ServiceKey
from clusters.settings import ExportMode, NamespaceFilter
from clusters.slices import SliceSettings, full_plan
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
    return [
        parse_item(row, f"{source}: items[{index}]")
        for index, row in enumerate(rows)
        if not _is_another_kind(row)
    ]


def _is_another_kind(row: object) -> bool:
    """An item of a kind that a newer version shows: none of ours to read."""
    kind = row.get("kind") if isinstance(row, dict) else None
    return isinstance(kind, str) and kind != "endpoint"


def _from_entries(rows: list[Any], source: str) -> list[Item]:
    """Endpoints from entries of a snapshot: added, and of a service that is exported."""
    found: list[Item] = []
    exported: set[tuple[str, ServiceKey]] = set()
    for index, row in enumerate(rows):
        where = f"{source}: entries[{index}]"
        element = row.get("element") if isinstance(row, dict) else None
        if not isinstance(element, list) or not element:
            message = f"{where}: element is not a list"
            raise InputError(message, cure=_CURE)
        stamp = parse_tag(row.get("tag"), where)
        if element[0] not in ("endpoint", "export") or row.get("op") != "add":
            continue
        if len(element) < _ELEMENT_FIELDS or not all(
            isinstance(item, str) for item in element[:_ELEMENT_FIELDS]
        ):
            message = f"{where}: element names no service"
            raise InputError(message, cure=_CURE)
        key = ServiceKey(element[2], element[3])
        if element[0] == "export":
            exported.add((stamp.cluster, key))
        else:
            found.append(Item(key, _entry_endpoint(element, row.get("value"), where), stamp))
    return [item for item in found if (item.stamp.cluster, item.key) in exported]


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
class _Wanted:
    """Newest statements by service, source cluster and identity."""

    found: dict[ServiceKey, dict[str, dict[tuple[str, PortSet], Item]]] = field(
        default_factory=dict
    )
    warnings: list[str] = field(default_factory=list)

    def take(self, item: Item) -> None:
        cluster = item.stamp.cluster
        if not may_be_visible(item.endpoint):
            self.warnings.append(
                f"{item.key} of {cluster}: {item.endpoint.address!a} must not be visible"
            )
            return
        rows = self.found.setdefault(item.key, {}).setdefault(cluster, {})
        held = rows.get(item.endpoint.identity)
        if held is None or _rank(held) < _rank(item):
            rows[item.endpoint.identity] = item

    def remote(self, key: ServiceKey) -> dict[str, list[Endpoint]]:
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
    wanted = _Wanted()
    for item in items:
        if item.stamp.cluster != cluster:
            wanted.take(item)
    catalog = _index(cluster, existing)
    warnings = list(wanted.warnings)
    objects: list[Manifest] = []
    writes: dict[ChangeOp, list[Manifest]] = {op: [] for op in ChangeOp}
    for key in sorted({*wanted.found, *catalog.owned_services()}):
        remote, observed = wanted.remote(key), catalog.owned(key)
        plan = full_plan(key, remote, observed, settings=settings, deletable=lambda _: True)
        for change in plan.changes:
            writes[change.op].append(change.manifest)
        objects += _after(observed, plan.changes)
        warnings += [
            f"{key} of {item.cluster}: {item.endpoints} endpoints not written: {item.reason}"
            for item in plan.refused
        ]
    return Planned(
        objects=tuple(objects),
        creates=tuple(writes[ChangeOp.CREATE]),
        updates=tuple(writes[ChangeOp.UPDATE]),
        deletes=tuple(writes[ChangeOp.DELETE]),
        warnings=tuple(warnings),
    )


def _after(observed: Iterable[Manifest], changes: Iterable[Any]) -> list[Manifest]:
    """The objects there will be once ``changes`` are carried out, by name."""
    held = {manifest["metadata"]["name"]: manifest for manifest in observed}
    for change in changes:
        if change.op is ChangeOp.DELETE:
            held.pop(change.name, None)
        else:
            held[change.name] = change.manifest
    return [held[name] for name in sorted(held)]


def _index(cluster: str, existing: Iterable[Located]) -> ServiceCatalog:
    catalog = ServiceCatalog(cluster=cluster, export=ExportMode.ALL, namespaces=NamespaceFilter())
    for item in existing:
        try:
            catalog.upsert(item.manifest)
        except ManifestError as error:
            message = f"{item.place}: {error.message}"
            raise InputError(message, cure=error.cure) from error
    return catalog
