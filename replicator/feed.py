"""The stream of endpoint changes that an agent's operators can follow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from clusters.base import Clock
from crdt import Change, Origin, Stamp
from replicator.items import item_of
from replicator.kinds import ENDPOINT
from replicator.networks import ANYWHERE, AllowLists
from replicator.ops.broadcast import Broadcast
from replicator.projection import endpoint_of, kind_of, may_be_visible, service_of


class Feed:
    """Tells whoever follows of each change to a visible endpoint."""

    def __init__(self, clock: Clock, allowed: AllowLists = ANYWHERE) -> None:
        """Nobody follows yet; addresses that are not ``allowed`` are not told of."""
        self._clock = clock
        self._allowed = allowed
        self._broadcast: Broadcast[dict[str, Any]] = Broadcast()

    @property
    def wanted(self) -> bool:
        """Whether anybody follows."""
        return self._broadcast.wanted

    def subscribe(self) -> AsyncIterator[dict[str, Any]]:
        """The changes from now on."""
        return self._broadcast.subscribe()

    def tell(self, origin: Origin, changes: tuple[Change, ...], seconds: float | None) -> None:
        """``origin`` changed; ``seconds`` is from the observation there to now."""
        if not self.wanted:
            return
        networks = self._allowed.of(origin.cluster)
        committed_at = str(self._clock.wall_ns())
        for element, before, after, stamp in changes:
            key = service_of(element)
            value = before if after is None else after
            if key is None or value is None or kind_of(element) != ENDPOINT:
                continue
            endpoint = endpoint_of(element, value)
            if not may_be_visible(endpoint.address, networks):
                continue
            self._broadcast.publish(
                {
                    "op": "remove" if after is None else "add",
                    "item": item_of(key, endpoint, Stamp(stamp, origin.cluster)),
                    "origin": origin.cluster,
                    "committed_at": committed_at,
                    "convergence_ms": None if seconds is None else round(seconds * 1e3, 3),
                }
            )
