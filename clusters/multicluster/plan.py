"""All writes that one service needs in target mode ``mcs``, from what exists (kubernetes.md M, 4).

The ServiceImport comes first: what belongs to it names its uid, so the rest waits for the pass
after; its clusterset address is that of the derived Service, so it is written again once that has
one; its status is written when its spec is as it shall be.  Each pass plans what can be done now,
and a pass over a finished result plans nothing.

Nothing is taken away before a complete state of its source cluster is known (M9): while an
exporting cluster is not known completely, as slices or the import's status name it, the import and
its derived Service stay as they are.  What names no member, somebody else wrote into the status.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from clusters.belonging import Belonging, owner_of
from clusters.model import ChangeOp, Endpoint, Manifest, ServiceKey, SliceChange
from clusters.multicluster import names
from clusters.multicluster.derived_service import derived_change
from clusters.multicluster.merge import Merged, carried_endpoints
from clusters.multicluster.service_import import (
    as_written,
    import_change,
    needs_derived,
    status_change,
)
from clusters.slice_names import source_cluster_of
from clusters.slices import Plan, SliceSettings
from clusters.slices import full_plan as slices_plan

_HEADLESS_ENDPOINTS = 1000
"""A headless set is one slice for as long as the API server takes it."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The objects of one service as the cluster shows them."""

    service_import: Manifest | None = None
    """Ours only."""
    derived: Manifest | None = None
    """Ours only."""
    slices: tuple[Manifest, ...] = ()


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Under which a service is planned."""

    settings: SliceSettings
    deletable: Callable[[str], bool]
    """Whether a complete state of a source cluster is known, so that what it lacks may go."""
    now: str
    """This moment, as :func:`~clusters.multicluster.conditions.instant` has it."""
    member: Callable[[str], bool] = lambda _: True
    """Whether a cluster may be one of the clusterset, as far as is known."""
    refusal: str = ""
    """Why the derived Service could not be written last time, "" when it could."""
    owner_first: bool = True
    """Whether what belongs to the import waits for it; else it is planned without an owner."""


def observed_of(key: ServiceKey, manifests: Iterable[Manifest]) -> Observed:
    """Objects of ours that belong to ``key``, told apart by kind; others are passed over."""
    by_kind: dict[str, list[Manifest]] = {}
    for manifest in manifests:
        by_kind.setdefault(str(manifest.get("kind")), []).append(manifest)
    imports = [one for one in by_kind.get("ServiceImport", ()) if names.is_our_import(one)]
    derived = [one for one in by_kind.get("Service", ()) if names.derived_from(one) == key]
    return Observed(
        service_import=imports[0] if imports else None,
        derived=derived[0] if derived else None,
        slices=tuple(by_kind.get("EndpointSlice", ())),
    )


def full_plan(
    key: ServiceKey,
    merged: Merged | None,
    endpoints: Mapping[str, Collection[Endpoint]],
    observed: Observed,
    given: Circumstances,
) -> Plan:
    """Writes that make the objects of ``key`` say what ``merged`` does, in order.

    ``endpoints`` by source cluster, ours among them.
    """
    existing = observed.service_import
    held = not all(map(given.deletable, _exporters(observed, given.member)))
    if merged is None:
        return _removal(key, observed, given, held=held)
    if existing is None:
        main = import_change(key, merged, None, observed.derived)
        rest = Plan() if given.owner_first else _belongings(key, merged, endpoints, observed, given)
        return Plan(_present(main, *rest.changes), rest.refused)
    if existing["metadata"].get("deletionTimestamp") is not None:
        return Plan()
    if held:
        written = as_written(merged, existing)
        return _slices(key, written, endpoints, observed, given)
    main = import_change(key, merged, existing, observed.derived)
    rest = _belongings(key, merged, endpoints, observed, given)
    status = None
    if main is None:
        status = status_change(
            merged,
            existing,
            has_endpoints=any(_carried(merged, endpoints).values()),
            refusal=given.refusal,
            now=given.now,
        )
    return Plan(_present(main, *rest.changes, status), rest.refused)


def _present(*changes: SliceChange | None) -> tuple[SliceChange, ...]:
    return tuple(change for change in changes if change is not None)


def _carried(
    merged: Merged, endpoints: Mapping[str, Collection[Endpoint]]
) -> dict[str, list[Endpoint]]:
    return {
        cluster: carried_endpoints(merged, cluster, endpoints[cluster]) for cluster in endpoints
    }


def _belongings(
    key: ServiceKey,
    merged: Merged,
    endpoints: Mapping[str, Collection[Endpoint]],
    observed: Observed,
    given: Circumstances,
) -> Plan:
    """Writes of the derived Service and the slices."""
    existing, derived = observed.service_import, observed.derived
    owner = None if existing is None else owner_of(existing)
    change = None
    if needs_derived(merged):
        change = derived_change(key, merged, derived, owner)
    elif derived is not None:
        change = SliceChange(ChangeOp.DELETE, derived)
    slices = _slices(key, merged, endpoints, observed, given)
    return Plan(_present(change, *slices.changes), slices.refused)


def _slices(
    key: ServiceKey,
    merged: Merged,
    endpoints: Mapping[str, Collection[Endpoint]],
    observed: Observed,
    given: Circumstances,
) -> Plan:
    existing = observed.service_import
    settings = given.settings
    if merged.headless:
        settings = replace(settings, max_endpoints=_HEADLESS_ENDPOINTS)
    return slices_plan(
        key,
        _carried(merged, endpoints),
        observed.slices,
        settings=settings,
        deletable=given.deletable,
        belonging=Belonging(
            owner=None if existing is None else owner_of(existing),
            proxied=names.derived_name(key) if needs_derived(merged) else None,
        ),
    )


def _exporters(observed: Observed, member: Callable[[str], bool]) -> set[str]:
    """Clusters of which something is written here, as slices and the import's status have it."""
    status = {} if observed.service_import is None else observed.service_import.get("status")
    listed = status.get("clusters") if isinstance(status, dict) else None
    named = {
        str(item.get("cluster"))
        for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict)
    }
    sources = {source_cluster_of(manifest) for manifest in observed.slices}
    return {*filter(member, named), *filter(None, sources)}


def _removal(key: ServiceKey, observed: Observed, given: Circumstances, *, held: bool) -> Plan:
    """Take away what nobody exports any more: slices, then what they belong to."""
    existing, derived = observed.service_import, observed.derived
    plan = slices_plan(
        key,
        {},
        observed.slices,
        settings=given.settings,
        deletable=given.deletable,
        belonging=Belonging(
            owner=None if existing is None else owner_of(existing),
            proxied=None if derived is None else names.derived_name(key),
        ),
    )
    going = [] if held else [one for one in (derived, existing) if one is not None]
    deletes = (SliceChange(ChangeOp.DELETE, manifest) for manifest in going)
    return Plan((*plan.changes, *deletes), plan.refused)
