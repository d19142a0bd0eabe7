"""Which addresses a cluster's endpoints may have, by this agent's configuration (property 40).

What lies outside is committed and relayed like everything else, so that all replicas hold the same;
it is never shown to consumers here, and counted.  A cluster that the configuration does not name
has the networks of ``"*"``, or no bounds.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_network

from clusters.addresses import numeric_key

EVERY_OTHER = "*"
"""Stands for the clusters that are not named."""
_BITS = {4: 32, 6: 128}


@dataclass(frozen=True, slots=True)
class Networks:
    """Some networks, as (family, bits to drop, what is left)."""

    ranges: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Networks:
        """From CIDR texts as :func:`replicator.config_keys.networks` gives them."""
        found = set()
        for text in texts:
            network = ip_network(text)
            drop = _BITS[network.version] - network.prefixlen
            found.add((network.version, drop, int(network.network_address) >> drop))
        return cls(tuple(sorted(found)))

    def hold(self, address: str) -> bool:
        """Whether a canonical address lies in one of them."""
        family, number = numeric_key(address)
        return any(number >> drop == rest for of, drop, rest in self.ranges if of == family)


class AllowLists:
    """The networks of every cluster."""

    def __init__(self, own: str = "", texts: Mapping[str, Iterable[str]] | None = None) -> None:
        """``texts`` are CIDR texts by cluster, :data:`EVERY_OTHER` among them or not.

        Our ``own`` cluster, of which we may hear by another agent of it, has no bounds.
        """
        self._own = own
        self._named = {name: Networks.of(these) for name, these in (texts or {}).items()}

    def of(self, cluster: str) -> Networks | None:
        """The networks of ``cluster``; None = no bounds."""
        if cluster == self._own:
            return None
        return self._named.get(cluster, self._named.get(EVERY_OTHER))


ANYWHERE = AllowLists()
