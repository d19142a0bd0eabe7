"""What is written of a cluster that fell silent: the ``stale`` policy.

Consumers are shown something else than the cluster stated only here, and only in what we write: the
set itself is never touched.  Silence is measured on the monotonic clock.  One sign of life after a
silence may be an old one that a relay had kept, so a cluster counts as heard again at the second.

After a restart nobody knows how long a cluster has been silent.  Until it was heard in this life it
is *unsure*: under ``not-ready`` what is written of it stays exactly as it is, under ``withdraw`` it
stays written where it is written and unwritten where it is not.  The time of a silence starts anew
with the life, and nothing is turned down before the view is current.

Pure; readings are arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from clusters.model import Endpoint, Manifest
from clusters.slice_names import source_cluster_of

_SURE = 2
"""Signs of life after which a cluster that was silent counts as heard."""

View = Mapping[str, Sequence[Endpoint]]
"""Endpoints of one service by source cluster."""


class Policy(StrEnum):
    """What becomes of the endpoints of a stale cluster."""

    KEEP = "keep"
    NOT_READY = "not-ready"
    WITHDRAW = "withdraw"


class Show(StrEnum):
    """What is written of a cluster at present."""

    AS_STATED = "as_stated"
    UNSURE = "unsure"
    """Not heard yet in this life."""
    NOT_READY = "not_ready"
    WITHDRAWN = "withdrawn"
    """Not written, but for the last endpoints of a service."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The policy with its times, in seconds since the cluster was last heard."""

    policy: Policy
    after: float
    """When a cluster is stale, and not ready under that policy."""
    withdraw_after: float
    withdraw_last: bool
    """Whether the last endpoints of a service may be withdrawn too."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is to be written of one service."""

    endpoints: View
    held: Collection[str] = frozenset()
    """Clusters of which nothing may be changed, whatever is written of them; not in the view."""
    unconfirmed: frozenset[str] = frozenset()
    """Those of them whose exports may be outdated as well."""
    withdrawn: Collection[str] = frozenset()
    """Clusters whose endpoints go by the policy, whether or not they were heard in this life."""


@dataclass(slots=True)
class _Known:
    """One cluster: when it was last heard, how often since it was silent, and what is written."""

    fresh_at: float | None = None
    signs: int = 0
    show: Show = Show.UNSURE


class Staleness:
    """How each cluster stands, under one rule."""

    def __init__(self, rule: Rule, start: float) -> None:
        """``start`` is the monotonic time at which this life began."""
        self._rule = rule
        self._start = start
        self._known: dict[str, _Known] = {}

    def of(self, cluster: str) -> Show:
        """What is written of ``cluster``; of one that is not known (any more) what it stated."""
        known = self._known.get(cluster)
        return Show.AS_STATED if known is None else known.show

    def review(
        self, fresh_at: Mapping[str, float | None], now: float, *, current: bool
    ) -> list[str]:
        """Take when each known cluster was last heard (None: not in this life).

        Returns those of which something else is to be written from now on.  Clusters left out are
        forgotten.  Before the view is ``current`` none is turned down.
        """
        if self._rule.policy is Policy.KEEP:
            return []
        for cluster in self._known.keys() - fresh_at.keys():
            del self._known[cluster]
        turned = []
        for cluster, heard in sorted(fresh_at.items()):
            known = self._known.setdefault(cluster, _Known())
            before = known.show
            self._judge(known, heard, now, current=current)
            if known.show is not before:
                turned.append(cluster)
        return turned

    def _judge(self, known: _Known, heard: float | None, now: float, *, current: bool) -> None:
        if heard is not None and heard != known.fresh_at:
            known.fresh_at = heard
            known.signs += 1
        withdraw = self._rule.policy is Policy.WITHDRAW
        limit = self._rule.withdraw_after if withdraw else self._rule.after
        if now - (self._start if heard is None else heard) >= limit:
            known.signs = 0
            if current:
                known.show = Show.WITHDRAWN if withdraw else Show.NOT_READY
        elif known.signs >= _SURE:
            known.show = Show.AS_STATED

    def seen(self, stated: View, written: Sequence[Manifest]) -> Seen:
        """What is to be written of a service of which ``stated`` is known.

        ``written`` are our objects for it as the cluster shows them.  The inputs are not changed.
        """
        if self._rule.policy is Policy.KEEP:
            return Seen(stated)
        present = {cluster for cluster in map(source_cluster_of, written) if cluster is not None}
        if self._rule.policy is Policy.WITHDRAW:
            return self._withdrawn(stated, present)
        held = {cluster for cluster in present if self.of(cluster) is Show.UNSURE}
        shown = {
            cluster: self._turned_down(cluster, endpoints)
            for cluster, endpoints in stated.items()
            if cluster not in held
        }
        return Seen(shown, held)

    def _turned_down(self, cluster: str, endpoints: Sequence[Endpoint]) -> Sequence[Endpoint]:
        if self.of(cluster) is not Show.NOT_READY:
            return endpoints
        return [replace(endpoint, ready=False, serving=False) for endpoint in endpoints]

    def _withdrawn(self, stated: View, present: Collection[str]) -> Seen:
        """``stated`` without what is withdrawn, unless no ready endpoint would be left."""
        stays = {
            cluster: endpoints
            for cluster, endpoints in stated.items()
            if self.of(cluster) is Show.AS_STATED
            or (self.of(cluster) is Show.UNSURE and cluster in present)
        }
        left = any(endpoint.ready for endpoints in stays.values() for endpoint in endpoints)
        if not left and not self._rule.withdraw_last:
            return Seen(stated)
        gone = {name for name in {*stated, *present} if self.of(name) is Show.WITHDRAWN}
        return Seen(stays, withdrawn=gone)
