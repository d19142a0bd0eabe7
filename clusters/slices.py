"""Which EndpointSlices of ours a service needs, and the writes that lead there from what exists.

One source cluster, one address family and one port set a slice (M1).  Packing is stable: an
endpoint stays in the slice that holds it; new ones go first where something is written anyway, then
into free places in order of shard, then into a new slice; an emptied slice goes.  So a changed
endpoint is one write, a rolling restart never repacks other slices, and a pass over a result that
was carried out writes nothing (M3): everything is compared after the API server's defaults,
endpoints as a set, and only in fields we own.

What the API server would refuse is not planned but reported (M7), or left out where the endpoint is
of use without it (a host name that is no DNS label).  Node, target and hints are never written, the
zone only if zones are shared (M4).  Slices of a cluster that is not ``deletable`` lose nothing:
neither slices nor endpoints (M9).

Pure; what to write is decided here, writing is the cluster's part.  Layout:
:mod:`clusters.slice_manifests`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from clusters.belonging import NOWHERE, Belonging
from clusters.errors import ClusterError
from clusters.model import ChangeOp, Endpoint, Manifest, PortSet, ServiceKey, SliceChange
from clusters.slice_manifests import (
    Desired,
    Observed,
    Unit,
    observe,
    refusal,
    units_of,
    updated,
)
from clusters.slice_names import GroupKey, is_dns_label, is_dns_name, ports_digest, slice_name

_MOST_ENDPOINTS = 1000
"""What the API server takes in one slice."""


@dataclass(frozen=True, slots=True)
class SliceSettings:
    """How slices are written."""

    max_endpoints: int = 100
    """Endpoints in one slice, 1 to 1000."""
    share_zones: bool = False
    """Whether zone names mean the same in every cluster, so that they may be written."""

    def __post_init__(self) -> None:
        """Refuse sizes the API server would refuse."""
        if not 1 <= self.max_endpoints <= _MOST_ENDPOINTS:
            message = f"max_endpoints is {self.max_endpoints}"
            raise ClusterError(message, cure="choose 1 to 1000", code="bad_settings")


@dataclass(frozen=True, slots=True)
class Refused:
    """Endpoints that are not written because the API server would refuse them."""

    reason: str
    cluster: str
    endpoints: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes for one service, in the order to carry them out, and what cannot be written."""

    changes: tuple[SliceChange, ...] = ()
    refused: tuple[Refused, ...] = ()


@dataclass(slots=True)
class _Slot:
    """One slice of a group, as it shall be."""

    shard: int
    observed: Observed | None
    units: list[Unit] = field(default_factory=list)
    dirty: bool = False


@dataclass(frozen=True, slots=True)
class _Group:
    """Everything about one (source cluster, family, port set)."""

    service: ServiceKey
    key: GroupKey
    ports: PortSet
    units: tuple[Unit, ...]
    observed: Mapping[int, Observed]
    """By shard: the slices of this group that can be kept."""
    taken: frozenset[int]
    """Shards whose names are in use by objects that cannot be kept."""
    deletable: bool
    belonging: Belonging


def plan(
    key: ServiceKey,
    remote: Mapping[str, Collection[Endpoint]],
    observed: Sequence[Manifest],
    *,
    settings: SliceSettings,
    deletable: Callable[[str], bool],
    read: Callable[[Manifest], Observed] = observe,
) -> list[SliceChange]:
    """The writes of :func:`full_plan`."""
    found = full_plan(key, remote, observed, settings=settings, deletable=deletable, read=read)
    return list(found.changes)


def full_plan(
    key: ServiceKey,
    remote: Mapping[str, Collection[Endpoint]],
    observed: Sequence[Manifest],
    *,
    settings: SliceSettings,
    deletable: Callable[[str], bool],
    belonging: Belonging = NOWHERE,
    read: Callable[[Manifest], Observed] = observe,
) -> Plan:
    """Writes that make our slices of ``key`` hold exactly ``remote`` (endpoints by source cluster).

    ``observed`` are our slices of this service as the cluster shows them; ``deletable(cluster)``
    says whether anything of that source cluster may be taken away; ``belonging`` is what they shall
    belong to; ``read`` is :func:`observe`, or one that remembers.  Creates come first, then
    updates, then deletes, each by name.  The inputs are not changed; the plan's manifests may share
    parts with them.
    """
    wanted, refused = _wanted(key, remote)
    seen = [read(manifest) for manifest in observed]
    shards = len(seen) + sum(map(len, remote.values())) // settings.max_endpoints + 1
    placed, extra = _place(key, wanted, seen, shards)
    changes: list[SliceChange] = []
    for group_key in sorted({*wanted, *placed}):
        ports, endpoints = wanted.get(group_key, (None, ()))
        holders = placed.get(group_key, {})
        usable = {shard: item for shard, item in holders.items() if item.family == group_key.family}
        extra += (item for shard, item in holders.items() if shard not in usable)
        group = _Group(
            service=key,
            key=group_key,
            ports=ports,
            units=units_of(endpoints, share_zones=settings.share_zones),
            observed=usable,
            taken=frozenset(holders) - frozenset(usable),
            deletable=deletable(group_key.cluster),
            belonging=belonging,
        )
        changes += _group_changes(group, settings)
    doomed = (item for item in extra if item.cluster is not None and deletable(item.cluster))
    changes += (SliceChange(ChangeOp.DELETE, item.manifest) for item in doomed)
    return Plan(tuple(sorted(changes, key=_order)), tuple(refused))


def _order(change: SliceChange) -> tuple[int, str]:
    return (list(ChangeOp).index(change.op), change.name)


def _wanted(
    key: ServiceKey, remote: Mapping[str, Collection[Endpoint]]
) -> tuple[dict[GroupKey, tuple[PortSet, list[Endpoint]]], list[Refused]]:
    """Endpoints by group, without what the API server would refuse."""
    groups: dict[GroupKey, tuple[PortSet, list[Endpoint]]] = {}
    refused: list[Refused] = []
    for cluster in sorted(remote):
        digests: dict[PortSet, str] = {}
        for endpoint in remote[cluster]:
            ports = endpoint.ports
            if ports not in digests:
                digests[ports] = ports_digest(ports)
            group = GroupKey(cluster, endpoint.family, digests[ports])
            groups.setdefault(group, (ports, []))[1].append(endpoint)
    for group, (ports, endpoints) in sorted(groups.items()):
        reason = _unwritable(key, group.cluster) or refusal(ports)
        if reason:
            refused.append(Refused(reason, group.cluster, len(endpoints)))
            del groups[group]
    return groups, refused


def _unwritable(key: ServiceKey, cluster: str) -> str:
    """Reason why nothing of this service and cluster can be written, or ""."""
    if not is_dns_label(key.namespace) or not is_dns_name(key.name):
        return "bad_service_name"
    return "" if is_dns_label(cluster) else "bad_cluster_name"


def _place(
    key: ServiceKey, wanted: Iterable[GroupKey], seen: Iterable[Observed], shards: int
) -> tuple[dict[GroupKey, dict[int, Observed]], list[Observed]]:
    """Where each observed slice belongs, by its own key; and those that belong nowhere.

    A slice belongs where its stored key says if its name agrees, or where its name is the one we
    would give; a second object for one key (a copy) is extra.
    """
    names: dict[str, tuple[GroupKey, int]] = {}
    placed: dict[GroupKey, dict[int, Observed]] = {}
    extra: list[Observed] = []
    for item in sorted(seen, key=lambda item: item.name):
        stored = item.stored
        if stored is not None and item.name == slice_name(key, stored[1], stored[2]):
            placed.setdefault(stored[1], {})[stored[2]] = item
            continue
        if not names:
            names = {
                slice_name(key, group, shard): (group, shard)
                for group in wanted
                for shard in range(shards)
            }
        where = names.get(item.name)
        if where is None:
            extra.append(item)
        else:
            placed.setdefault(where[0], {})[where[1]] = item
    return placed, extra


def _group_changes(group: _Group, settings: SliceSettings) -> list[SliceChange]:
    """The writes of one group."""
    if not group.units and not group.deletable:
        return []
    changes: list[SliceChange] = []
    for slot in _pack(group, settings.max_endpoints):
        change = _slot_change(group, slot)
        if change is not None:
            changes.append(change)
    return changes


def _slot_change(group: _Group, slot: _Slot) -> SliceChange | None:
    if not slot.units:
        return SliceChange(ChangeOp.DELETE, slot.observed.manifest) if slot.observed else None
    desired = Desired(
        group.service, group.key, slot.shard, group.ports, slot.units, group.belonging
    )
    if slot.observed is None:
        return SliceChange(ChangeOp.CREATE, desired.manifest())
    if slot.observed.in_sync_with(desired):
        return None
    return SliceChange(ChangeOp.UPDATE, updated(slot.observed.manifest, desired))


def _pack(group: _Group, limit: int) -> list[_Slot]:
    """Give every unit a slot, moving as few as possible; slots by shard, emptied ones included."""
    slots = {shard: _Slot(shard, group.observed[shard]) for shard in sorted(group.observed)}
    holder: dict[str, _Slot] = {}
    for slot in slots.values():
        assert slot.observed is not None  # noqa: S101 - made so above
        for address in slot.observed.addresses:
            holder.setdefault(address, slot)
    homeless: list[Unit] = []
    for unit in group.units:
        home = next((holder[item] for item in unit.addresses if item in holder), None)
        if home is None or len(home.units) >= limit:
            homeless.append(unit)
        else:
            home.units.append(unit)
    if not group.deletable:
        _keep_all(group, slots)
    for slot in slots.values():
        slot.dirty = slot.observed is not None and not slot.observed.holds_exactly(slot.units)
    _house(homeless, slots, group.taken, limit)
    return [slots[shard] for shard in sorted(slots)]


def _keep_all(group: _Group, slots: Mapping[int, _Slot]) -> None:
    """Leave in place what a group no longer wants but must not lose yet."""
    wanted = {address for unit in group.units for address in unit.addresses}
    for slot in slots.values():
        assert slot.observed is not None  # noqa: S101 - only observed slots exist by now
        slot.units += [unit for unit in slot.observed.units if wanted.isdisjoint(unit.addresses)]


def _house(
    homeless: Iterable[Unit], slots: dict[int, _Slot], taken: frozenset[int], limit: int
) -> None:
    """Put new units where something is written anyway, then into free places, then anew."""
    open_slots = sorted(slots.values(), key=lambda slot: (not slot.dirty, slot.shard), reverse=True)
    unused = (shard for shard in count() if shard not in slots and shard not in taken)
    for unit in homeless:
        while open_slots and len(open_slots[-1].units) >= limit:
            open_slots.pop()
        if not open_slots:
            shard = next(unused)
            slots[shard] = _Slot(shard, None, dirty=True)
            open_slots.append(slots[shard])
        open_slots[-1].units.append(unit)
