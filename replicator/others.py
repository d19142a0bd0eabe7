"""What this agent knows of the other clusters, as its importer, its gates and its views ask.

Pure readings of the replica: nothing here changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from clusters.model import Endpoint, ExportedService, ServiceKey
from crdt import Origin
from replicator.projection import stated_by
from replicator.remote_origin import RemoteOrigin
from replicator.replica import Replica


class Others:
    """The other clusters, from one replica; what another agent of our own wrote is left out."""

    def __init__(
        self, replica: Replica, peers: Iterable[str], monotonic: Callable[[], float]
    ) -> None:
        """``peers`` are the configured clusters; this life begins now."""
        self._replica = replica
        self._me = replica.own.origin.cluster
        self._peers = frozenset(peers) - {self._me}
        self._monotonic = monotonic
        self._started_at = monotonic()

    def expected(self) -> frozenset[str]:
        """Configured peers that are not forgotten."""
        forgotten = self._replica.members.forgotten
        return frozenset(peer for peer in self._peers if not forgotten(peer))

    def remotes(self) -> list[RemoteOrigin]:
        """Their origins, in order."""
        remotes = sorted(self._replica.remotes.items())
        return [remote for origin, remote in remotes if origin.cluster != self._me]

    def view(self, key: ServiceKey) -> Mapping[str, list[Endpoint]]:
        """Visible endpoints of a service by source cluster, ours left out."""
        view: dict[str, list[Endpoint]] = {}
        for remote in self.remotes():
            endpoints = [endpoint for _, endpoint in remote.index.visible(key)]
            if endpoints:
                view.setdefault(remote.origin.cluster, []).extend(endpoints)
        return view

    def state_too(self, element: bytes) -> list[str]:
        """Clusters that state the endpoint of ``element``, which is ours, of the same service."""
        clusters = ((remote, remote.origin.cluster) for remote in self.remotes())
        return [name for remote, name in clusters if remote.elements.get(stated_by(name, element))]

    def exports(self, key: ServiceKey) -> Mapping[str, ExportedService]:
        """What they export under this name, by cluster."""
        found = ((remote.origin.cluster, remote.index.export(key)) for remote in self.remotes())
        return {cluster: export for cluster, export in found if export is not None}

    def services(self) -> set[ServiceKey]:
        """All services that any of them states anything about."""
        keys: set[ServiceKey] = set()
        for remote in self.remotes():
            keys |= remote.index.all_services()
        return keys

    def deletable(self, cluster: str) -> bool:
        """A complete state of ``cluster`` was confirmed in this life, and the view is current."""
        replica, remote = self._replica, self._replica.remotes.get(Origin(cluster))
        if cluster in replica.members.wiped or replica.members.forgotten(cluster):
            return replica.announcements.relaying
        if remote is None or remote.fresh_at is None:
            return False
        return replica.announcements.relaying and remote.known

    def member(self, cluster: str) -> bool:
        """Whether there may be a cluster of this name; False only once the view is current."""
        known = {*self._peers, *(origin.cluster for origin in self._replica.remotes)}
        return cluster in known or not self._replica.announcements.relaying

    def staleness(self, origin: Origin) -> float | None:
        """Seconds since the origin was last known to be current; None if never in this life."""
        remote = self._replica.remotes.get(origin)
        if remote is None:
            return None
        if remote.fresh_at is None:
            return self._monotonic() - self._started_at if remote.known else None
        return max(0.0, self._monotonic() - remote.fresh_at)
