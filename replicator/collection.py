"""When tombstones may go: the policy for moving our own origin's floor.  Cost only, never safety.

A replica that lacks versions below the floor gets a snapshot that replaces, so a deleted element
stays deleted whatever is decided here.  The floor follows what every member has acknowledged; a
member that acknowledged nothing for an hour is not waited for, and tombstones beyond a fifth of
the live elements (and beyond 10,000) are not kept for anybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from crdt import OriginSet, Version

LAG_SECONDS = 3600.0
_SHARE = 5
_ALWAYS_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """How far a member has committed our origin, and when it last said so (monotonic)."""

    version: Version
    at: float


def new_floor(elements: OriginSet, members: Iterable[Acknowledged], now: float) -> int | None:
    """The floor to move to, None when it stays; ``elements`` is our served state."""
    if elements.tombstone_count == 0:
        return None
    epoch, bound = elements.version
    for member in members:
        if now - member.at < LAG_SECONDS:
            bound = min(bound, member.version.stamp if member.version.epoch == epoch else 0)
    most = max(_ALWAYS_KEPT, elements.live_count // _SHARE)
    bound = max(bound, elements.floor_keeping(most))
    oldest = elements.floor_keeping(elements.tombstone_count - 1)
    return bound if bound >= max(oldest, elements.floor + 1) else None
