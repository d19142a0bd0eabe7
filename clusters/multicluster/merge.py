"""All exports of one service, merged into the one service that the clusterset sees.

The oldest export decides what cannot be merged: headlessness, affinity, policies, address families,
labels and annotations.  Ports are a union: from oldest to youngest each port joins unless its name,
else its pair of protocol and number, is taken.  So whatever a younger export states, an older one
keeps what it serves, and any order of arrival gives the same result.  A cluster's endpoints go only
under ports that won and that this cluster declares.

Source: KEP-1645, "Constraints and Conflict Resolution".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from clusters.model import Endpoint, ExportedService, Port, PortSet
from clusters.multicluster.conflicts import Conflict, conflicts_of
from clusters.multicluster.offer import Offer, fits, read_offer
from clusters.readings import order_of


@dataclass(frozen=True, slots=True)
class Merged:
    """One service as its exporting clusters offer it together."""

    oldest: Offer
    """Decides everything but the ports."""
    ports: tuple[Port, ...]
    """In canonical order."""
    offers: Mapping[str, Offer]
    """By cluster, in order: who takes part."""
    conflicts: tuple[Conflict, ...] = ()

    @property
    def headless(self) -> bool:
        """Whether the service has no address of its own."""
        return self.oldest.headless

    def carried(self, cluster: str) -> frozenset[str]:
        """Names of the ports that the endpoints of ``cluster`` may be found under."""
        offer = self.offers.get(cluster)
        own = () if offer is None else offer.ports
        return frozenset(port.name for port in self.ports if any(_same(port, one) for one in own))


def merge(exports: Mapping[str, ExportedService]) -> Merged | None:
    """Exports by cluster, merged; None when none of them offers a Service."""
    found = (read_offer(cluster, export) for cluster, export in exports.items())
    offers = sorted((offer for offer in found if offer is not None), key=lambda offer: offer.age)
    if not offers:
        return None
    owners = _union(offers)
    ports = tuple(sorted(owners, key=Port.sort_key))
    return Merged(
        oldest=offers[0],
        ports=ports,
        offers={offer.cluster: offer for offer in sorted(offers, key=lambda one: one.cluster)},
        conflicts=conflicts_of(offers, {port: owners[port] for port in ports}),
    )


def _union(offers: Iterable[Offer]) -> dict[Port, str]:
    """Ports that won, each with the cluster whose word it is; offers come oldest first."""
    won: dict[Port, str] = {}
    for offer in offers:
        for port in offer.ports:
            if fits(port, list(won)):
                won[port] = offer.cluster
    return won


def _same(port: Port, other: Port) -> bool:
    """Whether traffic for both goes to the same; the application protocol is only a hint."""
    return (port.name, port.port, port.protocol) == (other.name, other.port, other.protocol)


def carried_endpoints(
    merged: Merged, cluster: str, endpoints: Collection[Endpoint]
) -> list[Endpoint]:
    """The endpoints of ``cluster`` under the ports they may be found under, in canonical order.

    Endpoints left without a port are left out.  Those for all ports stay so while everything their
    cluster declares has won; a cluster that declares no ports is carried as it is where nobody
    declares any, or where names alone are looked up (headless).
    """
    if cluster not in merged.offers:
        return []
    found: dict[tuple[str, PortSet], Endpoint] = {}
    names = merged.carried(cluster)
    for endpoint in sorted(endpoints, key=_preferred_last):
        ports = _carried_ports(merged, merged.offers[cluster], names, endpoint.ports)
        if ports != ():
            found[endpoint.address, ports] = replace(endpoint, ports=ports)
    return sorted(found.values(), key=order_of)


def _preferred_last(endpoint: Endpoint) -> tuple[bool, bool, bool, str]:
    """Of endpoints that differed only in a port that is not carried, the healthiest counts."""
    return (endpoint.ready, endpoint.serving, not endpoint.terminating, repr(endpoint))


def _carried_ports(merged: Merged, offer: Offer, names: frozenset[str], ports: PortSet) -> PortSet:
    if not offer.ports:
        return ports if merged.headless or not merged.ports else ()
    if ports is None:
        return None if len(names) == len(offer.ports) else ()
    return tuple(port for port in ports if port.name in names)
