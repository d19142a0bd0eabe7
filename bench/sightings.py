"""When each change of a service was asked for and seen, in the cluster it was made in and beyond.

Changes of one service are numbered.  A change is visible as soon as it or a later one of the same
service is seen, since later ones replace it.  Pure: the times are the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

_PERCENTILES = (("p50", 0.50), ("p90", 0.90), ("p99", 0.99))


def spread(values: Sequence[float]) -> dict[str, float | int | None]:
    """Count, percentiles (nearest rank) and largest of some milliseconds."""
    ordered = sorted(values)
    found: dict[str, float | int | None] = {"count": len(ordered)}
    for name, share in _PERCENTILES:
        rank = max(0, -int(-share * len(ordered) // 1) - 1)
        found[name] = round(ordered[rank], 2) if ordered else None
    return found | {"max": round(ordered[-1], 2) if ordered else None}


@dataclass(slots=True)
class Seen:
    """The moments of one change, in monotonic seconds; None until it happened."""

    asked: float
    here: float | None = None
    there: float | None = None


@dataclass(slots=True)
class Sightings:
    """All changes of all services."""

    _changes: dict[str, list[Seen]] = field(default_factory=dict)

    def ask(self, service: str, now: float) -> int:
        """Note that a service is changed now; returns the number of the change, from 0."""
        changes = self._changes.setdefault(service, [])
        changes.append(Seen(now))
        return len(changes) - 1

    def see(self, service: str, number: int, now: float, *, there: bool) -> None:
        """Note that the API server of this side (or the one beyond) shows a change."""
        for change in reversed(self._changes.get(service, [])[: number + 1]):
            if (change.there if there else change.here) is not None:
                return
            if there:
                change.there = now
            else:
                change.here = now

    def lost(self) -> int:
        """Return how many changes are not visible beyond, nor any later one of the service."""
        return sum(one.there is None for one in self._all())

    def milliseconds(self, *, since: float = 0.0, until: float = float("inf")) -> dict[str, Any]:
        """Spreads of the way of the changes asked for in a span of time.

        ``from_event`` is from the event of the first API server, ``from_request`` from before the
        write to it.
        """
        chosen = [one for one in self._all() if since <= one.asked < until]
        arrived = [one for one in chosen if one.there is not None]
        return {
            "changes": len(chosen),
            "from_event": spread(
                [
                    1e3 * (one.there - one.here)
                    for one in arrived
                    if one.there is not None and one.here is not None
                ]
            ),
            "from_request": spread(
                [1e3 * (one.there - one.asked) for one in arrived if one.there is not None]
            ),
        }

    def _all(self) -> Iterator[Seen]:
        for changes in self._changes.values():
            yield from changes
