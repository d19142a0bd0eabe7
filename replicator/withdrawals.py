"""Holds back what would take most of a service away on the word of a cluster that was silent.

A cluster that was stale and is heard again may say that all is gone because its own API server was
lost, or because a relay had kept its last words.  So while it is stale, and until it was heard for
a while again, a change that takes away all written addresses of a service in that cluster, or more
than half and not just a few, is not carried out: nothing of these is taken away, additions go on.
The set itself commits as ever.  An operator may release what is held.

Pure; readings are arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clusters.model import Endpoint, Manifest, ServiceKey
from clusters.slice_names import source_cluster_of
from replicator.confirmation import STATIC_SECONDS

_HALF = 2


@dataclass(frozen=True, slots=True)
class Guard:
    """What is held back, and for how long."""

    least: int
    """Fewer addresses than these may go, unless they are all there are."""
    fresh_for: float
    """Seconds over which a cluster must have been heard after a silence; 0 holds nothing back."""


class Withdrawal(NamedTuple):
    """What is held back of one service in one cluster."""

    key: ServiceKey
    cluster: str
    removed: int
    """Addresses that would go."""
    written: int
    """Addresses that are written."""


def described(one: Withdrawal) -> dict[str, object]:
    """A withdrawal in JSON: ``service``, ``cluster``, ``removed``, ``written``."""
    counts = {"removed": one.removed, "written": one.written}
    return {"service": str(one.key), "cluster": one.cluster, **counts}


@dataclass(slots=True)
class _Known:
    """One cluster, as it was heard."""

    heard: float | None
    shaky: bool = False
    """It was silent, and not heard for long enough since."""
    since: float | None = None
    """The first sign of life after the silence."""


class Withdrawals:
    """What is held back at present."""

    def __init__(self, guard: Guard, stale_after: float, start: float) -> None:
        """A cluster not heard for ``stale_after`` seconds is stale; this life began at ``start``.

        One that was stored and is not heard soon after the start counts as stale, too, since
        nobody knows for how long it has been silent.
        """
        self._guard = guard
        self._stale_after = stale_after
        self._start = start
        self._known: dict[str, _Known] = {}
        self._held: dict[tuple[ServiceKey, str], Withdrawal] = {}
        self._released: set[tuple[ServiceKey, str]] = set()

    @property
    def held(self) -> list[Withdrawal]:
        """What is held back, by service and cluster."""
        return [self._held[about] for about in sorted(self._held)]

    def review(self, fresh_at: Mapping[str, float | None], now: float) -> list[ServiceKey]:
        """Take when each known cluster was last heard (None: not in this life).

        Returns the services of which nothing more is held back.  Clusters left out are forgotten.
        """
        steady = set()
        for cluster in self._known.keys() - fresh_at.keys():
            del self._known[cluster]
            steady.add(cluster)
        for cluster, heard in fresh_at.items():
            known = self._known.setdefault(cluster, _Known(heard))
            was = known.shaky
            self._judge(known, heard, now)
            if was and not known.shaky:
                steady.add(cluster)
        self._released = {about for about in self._released if about[1] not in steady}
        return sorted({key for key, cluster in self._held if cluster in steady})

    def _judge(self, known: _Known, heard: float | None, now: float) -> None:
        before, known.heard = known.heard, heard
        if heard is None:
            silent = now - self._start >= min(self._stale_after, STATIC_SECONDS)
        else:
            gap = 0.0 if before is None else heard - before
            silent = max(gap, now - heard) >= self._stale_after
        if silent:
            known.shaky, known.since = True, None
        if heard is None or not known.shaky or now - heard >= self._stale_after:
            return
        if known.since is None:
            known.since = heard
        known.shaky = heard - known.since < self._guard.fresh_for

    def kept(
        self,
        key: ServiceKey,
        stated: Mapping[str, Sequence[Endpoint]],
        written: Sequence[Manifest],
        meant: Collection[str],
    ) -> frozenset[str]:
        """Clusters of which nothing written of ``key`` may be taken away now.

        ``stated`` is what is committed, ``written`` our objects as they are; what goes of the
        clusters ``meant`` goes by an operator's wish.
        """
        found = []
        for cluster, addresses in self._written(written).items():
            about = key, cluster
            gone = addresses - {endpoint.address for endpoint in stated.get(cluster, ())}
            if not gone:
                self._released.discard(about)
            elif cluster not in meant and about not in self._released:
                withdrawal = Withdrawal(key, cluster, len(gone), len(addresses))
                if about in self._held or self._is_mass(withdrawal):
                    found.append(withdrawal)
        for about in [about for about in self._held if about[0] == key]:
            del self._held[about]
        found = [one for one in found if self._is_shaky(one.cluster)]
        for one in found:
            # A cluster that was not heard yet has not said that anything is gone.
            if self._known[one.cluster].heard is not None:
                self._held[one.key, one.cluster] = one
        return frozenset(one.cluster for one in found)

    def _is_mass(self, one: Withdrawal) -> bool:
        most = one.removed * _HALF > one.written and one.removed >= self._guard.least
        return most or one.removed == one.written

    def _is_shaky(self, cluster: str) -> bool:
        known = self._known.get(cluster)
        return known is not None and known.shaky and self._guard.fresh_for > 0

    @staticmethod
    def _written(written: Sequence[Manifest]) -> dict[str, set[str]]:
        """Addresses by source cluster."""
        found: dict[str, set[str]] = {}
        for manifest in written:
            cluster = source_cluster_of(manifest)
            if cluster is not None and manifest.get("kind") == "EndpointSlice":
                addresses = found.setdefault(cluster, set())
                for entry in manifest.get("endpoints") or ():
                    addresses.update(entry.get("addresses") or ())
        return found

    def release(self, cluster: str | None, key: ServiceKey | None) -> list[Withdrawal]:
        """Let go what is held back now, of any cluster or service where None; returns that."""
        going = [
            one
            for one in self.held
            if cluster in {None, one.cluster} and (key is None or key == one.key)
        ]
        self._released.update((one.key, one.cluster) for one in going)
        return going
