"""The ``Cluster`` protocol: what the replicator needs of a cluster, whatever it is made of.

A cluster is watched in the background and answers from its cache: reads are synchronous and always
show one consistent moment of what was last seen; only writes wait.  Changes are announced by key,
never by content, so consumers are level-based: they read the present state when they get to it.

Invariant: every change of what :meth:`Cluster.local` or :meth:`Cluster.owned` would answer is
followed by the key on the matching :class:`KeySink`.  One service's keys may come more often than
needed, never too seldom.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from clusters.model import LocalService, Manifest, ServiceKey, SliceChange

KeySink = Callable[[ServiceKey], None]
"""Receives touched keys; must not block and must not raise (``WorkQueue.add`` fits)."""


class Clock(Protocol):
    """Time as an argument.  ``monotonic`` for every wait and age, ``wall_ns`` for stamps only."""

    def monotonic(self) -> float:
        """Seconds on a clock that never steps."""
        ...

    def wall_ns(self) -> int:
        """Unix time in nanoseconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait ``seconds`` on the monotonic clock."""
        ...


@dataclass(frozen=True, slots=True)
class ResourceHealth:
    """State of one watched resource (``endpointslices``, a folder ...)."""

    name: str
    synced: bool
    """A complete first listing was applied."""
    last_event_age: float | None = None
    """Seconds since the source last said anything; None before the first time."""
    error: str | None = None
    """The present trouble with its cure, or None."""


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """What ``status`` shows of a source or target."""

    resources: tuple[ResourceHealth, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)
    """Monotone counters by metric name and label, e.g. ``watch_relists_total{reason="gone"}``."""

    @property
    def synced(self) -> bool:
        """Every resource has been listed completely once."""
        return all(resource.synced for resource in self.resources)


class Cluster(Protocol):
    """One cluster: a source of local endpoints and a target for what others offer."""

    async def run(self, local: KeySink, owned: KeySink) -> None:
        """Watch until cancelled.

        ``local`` gets the key of a service whose local endpoints, export state or skipped list may
        have changed; ``owned`` the key of a service for which an object of ours (or its namespace)
        changed.  Never returns and never raises for trouble with the cluster itself: that is shown
        in :meth:`health` and retried with back-off.
        """
        ...

    async def wait_synced(self) -> None:
        """Return once the first complete listing of everything watched has been applied."""
        ...

    async def reread(self) -> None:
        """Return once everything watched was read anew, as it was at this call or later.

        For who must not act on a cache that may lag.  Waits for as long as the cluster cannot be
        read: the caller sets the bound, and may give up at any time.
        """
        ...

    async def uid(self) -> str:
        """Identity of the cluster that survives its agents (kube-system's uid).

        Raises :class:`~clusters.errors.ClusterUnavailableError` when it cannot be read now.
        """
        ...

    def services(self) -> frozenset[ServiceKey]:
        """Keys of all services that have anything local at present."""
        ...

    def local(self, key: ServiceKey) -> LocalService:
        """What the cluster itself says about ``key`` (empty when it says nothing)."""
        ...

    def owned_services(self) -> frozenset[ServiceKey]:
        """Keys of all services for which an object of ours exists at present."""
        ...

    def owned(self, key: ServiceKey) -> tuple[Manifest, ...]:
        """Our own EndpointSlices for ``key`` as last observed, sorted by name."""
        ...

    async def apply(self, change: SliceChange) -> None:
        """Carry out one write.

        A create of an object that exists and is ours, and a delete of one that is gone, are
        successes.  Raises :class:`~clusters.errors.WriteError`,
        :class:`~clusters.errors.NamespaceUnavailableError` or
        :class:`~clusters.errors.ClusterUnavailableError`; the cluster is then unchanged.
        """
        ...

    def health(self) -> ClusterHealth:
        """Present state of the watches, for status, readiness and metrics."""
        ...
