"""Endpoints and export states as elements, and back.

The one place that knows how a cluster's model is laid out in element keys and values.  Reading is
tolerant (appended fields are ignored) since the bytes passed :mod:`replicator.kinds`; what must
not be visible (addresses of kubernetes.md E8, or outside the networks allowed) is decided here, by
who reads, never when committed.
"""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, cast

import msgpack

from clusters.addresses import IPV4, IPV6, canonical
from clusters.errors import AddressError
from clusters.model import Endpoint, ExportedService, LocalService, Port, PortSet, ServiceKey
from crdt import pack
from replicator.kinds import CLUSTER, ENDPOINT, EXPORT, unpack
from replicator.networks import Networks

_READY, _SERVING, _TERMINATING = 1, 2, 4
_OF_A_SERVICE = frozenset((ENDPOINT, EXPORT))
_PLACES = 4096
"""Elements whose place is remembered."""


class ClusterInfo(NamedTuple):
    """What an origin says of itself."""

    region: str
    uid: str
    software: str
    shards: int = 1
    layout: int = 1


def _pack_list(fields: list[object]) -> bytes:
    """Canonical bytes of lists and scalars by the library, ten times as fast as ``crdt.pack``.

    Without maps both write the same bytes (held by a property test).
    """
    return cast("bytes", msgpack.packb(fields))


def _ports_field(ports: PortSet) -> list[list[object]] | None:
    if ports is None:
        return None
    return [[port.name, port.port, port.protocol, port.app_protocol] for port in ports]


def endpoint_element(cluster: str, key: ServiceKey, endpoint: Endpoint) -> bytes:
    """Element of one endpoint of ``cluster``."""
    ports = _ports_field(endpoint.ports)
    return _pack_list([ENDPOINT, cluster, key.namespace, key.name, endpoint.address, ports])


def endpoint_value(endpoint: Endpoint) -> bytes:
    """Value of an endpoint element: everything that is not its identity."""
    flags = (
        _READY * endpoint.ready + _SERVING * endpoint.serving + _TERMINATING * endpoint.terminating
    )
    return _pack_list([flags, endpoint.hostname, endpoint.zone, endpoint.node, endpoint.pod])


def export_entry(cluster: str, key: ServiceKey, export: ExportedService) -> tuple[bytes, bytes]:
    """Element and value of a service's export state."""
    element = _pack_list([EXPORT, cluster, key.namespace, key.name])
    return element, pack([export.created_at, dict(export.properties)])


_Encoded = tuple[object, bytes, bytes]
"""What was encoded (kept, so that its id stays its own), element, value."""
_ELEMENT_AND_VALUE = itemgetter(1, 2)


class Projector:
    """Everything one cluster states about its services, element to value.

    Endpoints that are the same objects as at the last call for their service are not encoded again:
    4 us instead of 45 us for a service of ten endpoints of which one changed.
    """

    def __init__(self, cluster: str) -> None:
        """Encode what ``cluster`` states."""
        self._cluster = cluster
        self._known: dict[ServiceKey, dict[int, _Encoded]] = {}

    def elements_of(self, service: LocalService) -> dict[bytes, bytes]:
        """Elements and values of one service, empty when it is not exported."""
        key, export = service.key, service.export
        known = self._known.pop(key, {})
        if export is None:
            return {}
        ids = list(map(id, service.endpoints))
        kept = dict(zip(ids, map(known.get, ids), strict=True))
        if None in kept.values():
            for endpoint in service.endpoints:
                if kept[id(endpoint)] is None:
                    element = endpoint_element(self._cluster, key, endpoint)
                    kept[id(endpoint)] = (endpoint, element, endpoint_value(endpoint))
        found = known.get(id(export))
        kept[id(export)] = found or (export, *export_entry(self._cluster, key, export))
        encoded = cast("dict[int, _Encoded]", kept)
        self._known[key] = encoded
        return dict(map(_ELEMENT_AND_VALUE, encoded.values()))


def cluster_element(cluster: str, info: ClusterInfo) -> tuple[bytes, bytes]:
    """The element and value by which ``cluster`` describes itself."""
    return pack([CLUSTER, cluster]), pack(list(info))


@lru_cache(maxsize=_PLACES)
def place_of(element: bytes) -> tuple[int, ServiceKey | None]:
    """Kind number of an element, and its service if it is an endpoint or export.

    Elements come back: what changes now often changed a moment ago.
    """
    fields = unpack(element)
    kind = int(fields[0])
    return kind, ServiceKey(fields[2], fields[3]) if kind in _OF_A_SERVICE else None


def kind_of(element: bytes) -> int:
    """Kind number of an element."""
    return place_of(element)[0]


def service_of(element: bytes) -> ServiceKey | None:
    """The service an endpoint or export element belongs to; None for other kinds."""
    return place_of(element)[1]


def _ports(field: list[list[Any]] | None) -> PortSet:
    if field is None:
        return None
    return tuple(Port(name, port, protocol, app) for name, port, protocol, app, *_ in field)


def endpoint_of(element: bytes, value: bytes) -> Endpoint:
    """The endpoint an element with its value states; only for elements of that kind."""
    _, _, _, _, address, ports = unpack(element)
    flags, hostname, zone, node, pod = unpack(value)[:5]
    return Endpoint(
        address=address,
        ports=_ports(ports),
        ready=bool(flags & _READY),
        serving=bool(flags & _SERVING),
        terminating=bool(flags & _TERMINATING),
        hostname=hostname,
        zone=zone,
        node=node,
        pod=pod,
    )


def export_of(value: bytes) -> ExportedService:
    """The export state an export element's value states."""
    created_at, properties = unpack(value)[:2]
    return ExportedService(created_at, tuple(sorted(properties.items())))


def cluster_info(value: bytes) -> ClusterInfo:
    """What an origin's cluster element states."""
    return ClusterInfo(*unpack(value)[:5])


def stated_by(cluster: str, element: bytes) -> bytes:
    """The element by which ``cluster`` would state the same endpoint."""
    fields = unpack(element)
    return _pack_list([fields[0], cluster, *fields[2:]])


def address_of(element: bytes) -> str:
    """The address of an endpoint's element, as it was stated."""
    address: str = unpack(element)[4]
    return address


def may_be_visible(address: str, networks: Networks | None = None) -> bool:
    """Whether consumers may see this address: by what it is, and by the networks allowed."""
    family = IPV6 if ":" in address else IPV4
    try:
        good = canonical(address, family) == address
    except AddressError:
        return False
    return good and (networks is None or networks.hold(address))
