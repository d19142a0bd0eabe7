"""Which elements of one origin belong to which service, and what it says of itself and of others.

Kept beside an origin's committed set and moved by the same commits, so a service can be read
without a scan.  Endpoints are visible only while their service is exported, whatever the arrival
order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from copy import copy

from clusters.model import Endpoint, ExportedService, ServiceKey
from crdt import Change, OriginSet
from replicator import membership, policies, projection
from replicator.kinds import CLUSTER, ENDPOINT, EXPORT
from replicator.networks import Networks


def touched(changes: Iterable[Change]) -> frozenset[ServiceKey]:
    """The services whose visible state may have changed."""
    keys = (projection.service_of(change.element) for change in changes)
    return frozenset(key for key in keys if key is not None)


class ServiceIndex:
    """Index over the live elements of one :class:`~crdt.OriginSet`."""

    def __init__(self, elements: OriginSet, networks: Networks | None = None) -> None:
        """Index everything ``elements`` holds now.

        Addresses outside ``networks`` (None: no bounds) are not visible.
        """
        self._set = elements
        self._networks = networks
        self._hidden: set[bytes] = set()
        self._endpoints: dict[ServiceKey, tuple[bytes, ...]] = {}
        """Sorted.  A tuple takes a tenth of the memory of a set, and unlike a list nothing of the
        garbage collector's time; to copy one of a hundred endpoints takes less than to hash."""
        self._exports: dict[ServiceKey, bytes] = {}
        self._cluster: bytes | None = None
        self.cells: dict[str, membership.Cell] = {}
        """What the origin states about members, by subject."""
        self.cells_moved = 0
        """How often that changed."""
        self.policies: policies.Table = {}
        """What the origin states about traffic, by topic."""
        self.unread: dict[bytes, bytes] = {}
        """Policy cells that cannot be told to count, with their values."""
        self.policies_moved = 0
        """How often either changed."""
        self._insert_all()

    def _insert_all(self) -> None:
        for element, _, value in self._set.live():
            self._insert(element)
            self._decide(element, value)

    def bare(self) -> ServiceIndex:
        """An index of nothing, for what the set will hold after a snapshot."""
        other = copy(self)
        other._clear()  # noqa: SLF001 - of this class
        return other

    def rebuilt(self) -> ServiceIndex:
        """An index of what the set holds now."""
        other = self.bare()
        other._insert_all()  # noqa: SLF001 - of this class
        return other

    def fork(self) -> ServiceIndex:
        """The same, to be changed for a commit to come; this one must stay as it is meanwhile."""
        other = copy(self)
        other._part()  # noqa: SLF001 - of this class
        return other

    def _clear(self) -> None:
        # Whatever was decided may be decided no more.
        self.cells_moved += bool(self.cells)
        self.policies_moved += bool(self.policies or self.unread)
        self._endpoints, self._exports, self._cluster, self._hidden = {}, {}, None, set()
        self.cells, self.policies, self.unread = {}, {}, {}

    def _part(self) -> None:
        """Change nothing of the index that this one is a shallow copy of."""
        self._endpoints, self._exports = self._endpoints.copy(), self._exports.copy()
        self._hidden = self._hidden.copy()
        self.cells, self.policies = self.cells.copy(), self.policies.copy()
        self.unread = self.unread.copy()

    def apply(self, changes: Iterable[Change]) -> set[ServiceKey]:
        """Follow a commit; returns the services whose visible state may have changed."""
        found: set[ServiceKey] = set()
        for element, before, after, _ in changes:
            key = projection.service_of(element)
            if key is not None:
                found.add(key)
            else:
                self._decide(element, after)
            if before is None:
                self._insert(element)
            elif after is None:
                self._discard(element, key)
        return found

    def _decide(self, element: bytes, value: bytes | None) -> None:
        """Keep what a membership or policy cell says now, nothing for None."""
        if policies.is_policy(element):
            self._steer(element, value)
        if not membership.is_member(element):
            return
        self.cells_moved += 1
        if value is None:
            self.cells.pop(membership.subject_of(element), None)
        else:
            self.cells[membership.subject_of(element)] = membership.cell_of(value)

    def _steer(self, element: bytes, value: bytes | None) -> None:
        self.policies_moved += 1
        topic = policies.topic_of(element)
        self.policies.pop(topic, None)
        self.unread.pop(element, None)
        if value is None:
            return
        cell = policies.cell_of(element, value)
        if cell is None:
            self.unread[element] = value
        else:
            self.policies[topic] = cell

    def _insert(self, element: bytes) -> None:
        kind, key = projection.place_of(element)
        if kind == CLUSTER:
            self._cluster = element
        elif kind == EXPORT and key is not None:
            self._exports[key] = element
        elif kind == ENDPOINT and key is not None:
            elements = self._endpoints.get(key, ())
            at = bisect_left(elements, element)
            self._endpoints[key] = (*elements[:at], element, *elements[at:])
            if not projection.may_be_visible(projection.address_of(element), self._networks):
                self._hidden.add(element)

    def _discard(self, element: bytes, key: ServiceKey | None) -> None:
        if key is None:
            if element == self._cluster:
                self._cluster = None
        elif self._exports.get(key) == element:
            del self._exports[key]
        else:
            self._hidden.discard(element)
            elements = self._endpoints[key]
            at = bisect_left(elements, element)
            self._endpoints[key] = (*elements[:at], *elements[at + 1 :])
            if not self._endpoints[key]:
                del self._endpoints[key]

    @property
    def hidden(self) -> int:
        """Endpoints whose address nobody may see here."""
        return len(self._hidden)

    def services(self) -> list[ServiceKey]:
        """Exported services in order."""
        return sorted(self._exports)

    def all_services(self) -> set[ServiceKey]:
        """Services with any element, exported or not."""
        return {*self._exports, *self._endpoints}

    def elements(self, key: ServiceKey) -> Iterator[bytes]:
        """Elements of a service, its export element included, in no particular order."""
        yield from self._endpoints.get(key, ())
        if key in self._exports:
            yield self._exports[key]

    def export(self, key: ServiceKey) -> ExportedService | None:
        """Export state of a service, None when it is not exported."""
        element = self._exports.get(key)
        found = None if element is None else self._set.get(element)
        return None if found is None else projection.export_of(found[1])

    def has_ready(self, key: ServiceKey) -> bool:
        """Whether consumers may see a ready endpoint of a service."""
        return any(endpoint.ready for _, endpoint in self.visible(key))

    def visible(self, key: ServiceKey) -> list[tuple[int, Endpoint]]:
        """(stamp, endpoint) of what consumers may see of a service, by address and ports."""
        if key not in self._exports:
            return []
        rows = []
        for element in self._endpoints.get(key, ()):
            if element in self._hidden:
                continue
            found = self._set.get(element)
            assert found is not None  # noqa: S101 - the same commits move both
            rows.append((found[0], projection.endpoint_of(element, found[1])))
        return rows

    def cluster(self) -> projection.ClusterInfo | None:
        """What the origin says of itself."""
        found = None if self._cluster is None else self._set.get(self._cluster)
        return None if found is None else projection.cluster_info(found[1])
