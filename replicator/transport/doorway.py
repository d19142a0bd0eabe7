"""How many connections and links a listener takes: in all, from one address, of one cluster.

Whoever has not shown a certificate yet is known by the address alone, and is closed unheard when
there are too many.  Whoever has is told to come back later.  A link is renewed by making the next
one first, so a cluster that has one finds room for another where new clusters find none.

Pure.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from replicator.transport.base import Refusal

_BUSY_SECONDS, _FULL_SECONDS = 10.0, 30.0
_PREFIX = 64
"""Bits of an IPv6 address that somebody has to pay for."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a listener takes at most at once."""

    links: int = 1024
    """Of clusters that had none before; in all, twice as many."""
    links_per_peer: int = 8
    """Of one cluster, whichever of its agents made them."""
    handshakes: int = 256
    """Connections that are no link yet."""
    handshakes_per_address: int = 64
    """The same from one address (IPv6: from one /64)."""


class Doorway:
    """Who is at the door of one listener, and who is inside."""

    def __init__(self, bounds: Bounds) -> None:
        """Nobody yet."""
        self._bounds = bounds
        self._waiting: Counter[str] = Counter()
        self._links: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Somebody connects; False, and nothing changed, when there are too many."""
        key, bounds = _sender(address), self._bounds
        if self._waiting.total() >= bounds.handshakes:
            return False
        if self._waiting[key] >= bounds.handshakes_per_address:
            return False
        self._waiting[key] += 1
        return True

    def leave(self, address: str) -> None:
        """Who entered from there has become a link, or is gone."""
        _one_less(self._waiting, _sender(address))

    def take(self, cluster: str) -> Refusal | None:
        """A link of ``cluster`` begins; or why it may not, and nothing changed."""
        bounds, mine = self._bounds, self._links[cluster]
        if mine >= bounds.links_per_peer:
            message = f"there are {mine} links of {cluster} already, the most of one cluster"
            cure = "end what dials beside its agents, or raise limits.links_per_peer"
            return Refusal(429, "busy", message, cure, _BUSY_SECONDS)
        total = self._links.total()
        if total >= bounds.links * (2 if mine else 1):
            message = f"there are {total} links already, and limits.links is {bounds.links}"
            return Refusal(503, "shedding", message, "raise limits.links", _FULL_SECONDS)
        self._links[cluster] += 1
        return None

    def give_back(self, cluster: str) -> None:
        """A link that was taken is over."""
        _one_less(self._links, cluster)


def _one_less(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _sender(address: str) -> str:
    """What stands for everybody who shares an address."""
    parsed = ip_address(address.partition("%")[0])
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{int(parsed) >> (128 - _PREFIX):x}/{_PREFIX}"
