"""What ``replicator plan --mode mcs`` answers: imports, derived Services and slices of a cluster.

All clusters' endpoints are written, its own too.  A snapshot says who exports what, so the whole
ServiceImport is planned.  What ``encode`` wrote holds endpoints only: their slices are planned,
under the ports they have, for the ServiceImport that exists, else without an owner.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clusters.belonging import IMPORT_KIND, Belonging, owner_of
from clusters.manifests import Located
from clusters.model import Endpoint, ExportedService, Manifest, ServiceKey
from clusters.multicluster import names
from clusters.multicluster.merge import Merged, carried_endpoints, merge
from clusters.multicluster.offer import HEADLESS
from clusters.multicluster.plan import Circumstances, full_plan, observed_of
from clusters.slices import Plan, SliceSettings
from clusters.slices import full_plan as slices_plan
from crdt import Stamp
from replicator.items import Item
from replicator.planning import Planned, StatedExport, Wanted, Writes, index_of

Exports = Mapping[str, ExportedService]


def plan_multicluster(
    cluster: str,
    items: Iterable[Item],
    exports: Iterable[StatedExport],
    existing: Iterable[Located] = (),
    *,
    now: str,
) -> Planned:
    """What ``cluster`` would hold and write in mode mcs.

    ``now`` is written where a condition changes.  Raises :class:`InputError` naming the place of an
    existing object that cannot be read.
    """
    wanted = Wanted()
    for item in items:
        wanted.take(item)
    stated = _newest(exports)
    catalog = index_of(cluster, existing, multicluster=True)
    written = Writes(list(wanted.warnings))
    given = Circumstances(SliceSettings(), lambda _: True, now, owner_first=False)
    for key in sorted({*wanted.found, *stated, *catalog.owned_services()}):
        held = [one for one in catalog.owned(key) if one["kind"] != "ServiceExport"]
        known, endpoints = stated.get(key), wanted.remote(key)
        merged = merge(known or {})
        foreign = [one for one in held if _is_foreign(one)]
        if known and foreign:
            written.warnings.append(f"{key}: the ServiceImport that exists is not ours")
        if foreign or (known is None and endpoints):
            plan = _slices(key, _carried(merged, endpoints), held)
        else:
            plan = full_plan(key, merged, endpoints, observed_of(key, held), given)
        written.add(key, [one for one in held if one not in foreign], plan)
    return written.planned()


def _newest(exports: Iterable[StatedExport]) -> dict[ServiceKey, dict[str, ExportedService]]:
    """Export states by service and cluster; of several the newest."""
    found: dict[ServiceKey, dict[str, ExportedService]] = {}
    for stated in sorted(exports, key=_stamp):
        found.setdefault(stated.key, {})[stated.stamp.cluster] = stated.export
    return found


def _stamp(stated: StatedExport) -> Stamp:
    return stated.stamp


def _is_foreign(manifest: Manifest) -> bool:
    return manifest["kind"] == IMPORT_KIND and not names.is_our_import(manifest)


def _carried(
    merged: Merged | None, endpoints: Mapping[str, list[Endpoint]]
) -> Mapping[str, list[Endpoint]]:
    if merged is None:
        return endpoints
    return {
        cluster: carried_endpoints(merged, cluster, endpoints[cluster]) for cluster in endpoints
    }


def _slices(
    key: ServiceKey, endpoints: Mapping[str, list[Endpoint]], held: Iterable[Manifest]
) -> Plan:
    """Writes of the slices alone, for the import there is, whoever made it."""
    objects = list(held)
    imports = [one for one in objects if one["kind"] == IMPORT_KIND]
    spec = imports[0].get("spec") if imports else None
    headless = isinstance(spec, dict) and spec.get("type") == HEADLESS
    return slices_plan(
        key,
        endpoints,
        observed_of(key, objects).slices,
        settings=SliceSettings(max_endpoints=1000) if headless else SliceSettings(),
        deletable=lambda _: True,
        belonging=Belonging(
            owner=owner_of(imports[0]) if imports else None,
            proxied=None if headless else names.derived_name(key),
        ),
    )
