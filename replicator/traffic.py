"""What drains and weights make of the endpoints of a service before they are written.

A drained cluster's endpoints are written as not ready; ``serving`` and ``terminating`` stay as
stated.  EndpointSlices know no weights, so of a cluster of weight 30 three tenths of the ready
addresses of each family stay ready (rounded up), chosen by a hash of the address: an address that
comes or goes moves at most one other.  No service is left without any ready endpoint by this,
unless a drain was told to take the last ones: weights are given up first, then drains.

The own cluster's endpoints are never touched, and their being ready counts.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

from clusters.model import Endpoint, ServiceKey
from replicator.policies import FULL_WEIGHT, UNTOUCHED, Traffic

View = Mapping[str, Sequence[Endpoint]]
"""Endpoints of one service by source cluster."""
Lookup = Callable[[str, ServiceKey], Traffic]
"""What is decided about one cluster's endpoints of a service."""


def steered(key: ServiceKey, view: View, traffic_of: Lookup, *, here: bool) -> View:
    """``view`` with what is drained, or beyond its weight, not ready; the input is not changed.

    ``here``: our own cluster has ready endpoints of the service, so none of these is the last.
    """
    found = {cluster: traffic_of(cluster, key) for cluster in view}
    if all(traffic == UNTOUCHED for traffic in found.values()):
        return view
    shown = view
    for gentle, weighed in ((True, True), (True, False), (False, True), (False, False)):
        shown = {
            cluster: _shown(key, cluster, endpoints, found[cluster], gentle=gentle, weighed=weighed)
            for cluster, endpoints in view.items()
        }
        if here or any(endpoint.ready for endpoints in shown.values() for endpoint in endpoints):
            break
    return shown


def _shown(
    key: ServiceKey,
    cluster: str,
    endpoints: Sequence[Endpoint],
    traffic: Traffic,
    *,
    gentle: bool,
    weighed: bool,
) -> Sequence[Endpoint]:
    """One cluster's endpoints; without ``gentle`` only drains that take the last ones count."""
    if traffic.last or (traffic.drained and gentle):
        stays: frozenset[str] = frozenset()
    elif weighed and traffic.weight < FULL_WEIGHT:
        stays = chosen(key, cluster, endpoints, traffic.weight)
    else:
        return endpoints
    return [
        endpoint if endpoint.address in stays else replace(endpoint, ready=False)
        for endpoint in endpoints
    ]


def chosen(
    key: ServiceKey, cluster: str, endpoints: Sequence[Endpoint], weight: int
) -> frozenset[str]:
    """The ready addresses that stay ready under ``weight`` percent, of each family its share."""
    families: dict[str, set[str]] = {}
    for endpoint in endpoints:
        if endpoint.ready:
            families.setdefault(endpoint.family, set()).add(endpoint.address)

    def score(address: str) -> bytes:
        text = f"{cluster} {key} {address}"
        return blake2b(text.encode(), digest_size=8).digest() + address.encode()

    stays: set[str] = set()
    for addresses in families.values():
        share = -(-len(addresses) * weight // FULL_WEIGHT)
        stays.update(sorted(addresses, key=score)[:share])
    return frozenset(stays)
