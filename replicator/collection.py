"""When tombstones may go: the policy for moving our own origin's floor.  Cost only, never safety.

A replica that lacks versions below the floor gets a snapshot that replaces, so a deleted element
stays deleted whatever is decided here.  The floor follows what every member has acknowledged, to us
or to a relay that speaks for it; a member that acknowledged nothing for an hour is not waited for,
and tombstones beyond a fifth of the live elements (and beyond 10,000) are not kept for anybody.
Many go in several steps, so that none of them takes long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crdt import ZERO, Origin, OriginSet, Version
from replicator.own_origin import OwnOrigin
from replicator.session import Session

COLLECT_SECONDS = 10.0
LAG_SECONDS = 3600.0
COLLECTED_AT_ONCE = 1024
"""Tombstones that one head drops at most: every replica drops them in the step that commits it."""
_SHARE = 5
_ALWAYS_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """How far a member has committed our origin, and when it last said so (monotonic)."""

    version: Version
    at: float
    speaks_for: int = 1
    """Itself and those who take our origin through it; the version is the least of theirs."""


def waited_for(
    members: Mapping[str, Acknowledged], linked: Iterable[str], total: int
) -> list[Acknowledged]:
    """Whose word counts, when ``linked`` take our origin from us and there are ``total`` clusters.

    The linked ones when together they speak for all; else all members.  The number may be too
    large for a moment, while somebody changes relays: then a floor moves early, which costs whom
    it leaves behind a snapshot.
    """
    present = [members[cluster] for cluster in linked if cluster in members]
    if sum(member.speaks_for for member in present) >= total:
        return present
    return list(members.values())


def new_floor(elements: OriginSet, members: Iterable[Acknowledged], now: float) -> int | None:
    """The floor to move to, None when it stays; ``elements`` is our served state."""
    if elements.tombstone_count == 0:
        return None
    epoch, bound = elements.version
    for member in members:
        if now - member.at < LAG_SECONDS:
            bound = min(bound, member.version.stamp if member.version.epoch == epoch else 0)
    most = max(_ALWAYS_KEPT, elements.live_count // _SHARE)
    left = max(0, elements.tombstone_count - COLLECTED_AT_ONCE)
    bound = max(bound, elements.floor_keeping(max(most, left)))
    if left:
        bound = min(bound, elements.floor_keeping(left))
    oldest = elements.floor_keeping(elements.tombstone_count - 1)
    return bound if bound >= max(oldest, elements.floor + 1) else None


class Collection:
    """Moves our own origin's floor when it is time."""

    def __init__(
        self,
        own: OwnOrigin,
        remotes: Mapping[Origin, object],
        sessions: Mapping[int, Session],
        acknowledged: dict[str, Acknowledged],
    ) -> None:
        """Decide over the replica's own parts."""
        self._own = own
        self._remotes = remotes
        self._sessions = sessions
        self._acknowledged = acknowledged
        self._collect_at = 0.0

    def expect(self, clusters: Iterable[str], now: float) -> None:
        """Keep tombstones for these until they acknowledge, or an hour has passed."""
        for cluster in clusters:
            self._acknowledged.setdefault(cluster, Acknowledged(ZERO, now))

    def tick(self, now: float, wall_ns: int) -> None:
        """Move the floor if it is due and there is something to collect."""
        if now < self._collect_at:
            return
        self._collect_at = now + COLLECT_SECONDS
        floor = new_floor(self._own.elements, self._waited_for(), now)
        if floor is None:
            return
        self._own.move_floor(floor, wall_ns)
        if self._own.elements.tombstone_count > COLLECTED_AT_ONCE:
            self._collect_at = now

    def _waited_for(self) -> list[Acknowledged]:
        """The acknowledgements of our own origin that count."""
        mine, sessions = self._own.origin, self._sessions.values()
        linked = {s.cluster for s in sessions if s.peer is not None and mine in s.cursors}
        clusters = self._acknowledged.keys() | {origin.cluster for origin in self._remotes}
        return waited_for(self._acknowledged, linked, len(clusters))
