"""Whether somebody else writes as this cluster: its folder or its configuration was copied.

One head of ours that we lack is what a lost disk leaves behind; each of them opens a higher epoch
(rule C10).  Two writers without a lease do that to each other in turn, twice a second, for ever:
every time all replicas take the whole state, and all looks well in between.  So it is shown.
"""

from __future__ import annotations

from dataclasses import dataclass

OFTEN = 3
WITHIN = 60.0
"""Seconds."""


@dataclass(slots=True)
class Rivals:
    """When heads of ours were met that somebody else had written."""

    _met: tuple[float, ...] = ()
    """The last :data:`OFTEN` times, monotonic."""

    def met(self, now: float) -> None:
        """Another head opened a higher epoch of ours."""
        self._met = (*self._met, now)[-OFTEN:]

    def problems(self, cluster: str, now: float) -> list[dict[str, str]]:
        """What a person should look at while it happened :data:`OFTEN` times of late."""
        if len(self._met) < OFTEN or now - self._met[0] > WITHIN:
            return []
        message = f"another agent writes as {cluster}: each opens epochs above the other's"
        cure = (
            "end it, or give it its own cluster id and certificate; several agents of one cluster "
            "need lease.enabled in each"
        )
        return [{"code": "rival_writer", "message": message, "cure": cure}]
