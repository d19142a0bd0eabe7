"""What one EndpointSlice or Endpoints object states, read once and kept.

A :class:`Reading` is a pure function of one object, so it can be cached by (uid, resourceVersion)
and compared: equal statements mean that nothing we carry has changed (kubernetes.md E12, E13).
Whatever JSON stands in a field, reading never fails: an endpoint or port that cannot be used is
left out alone and named in ``skipped``.  How several objects make one service is
:mod:`clusters.canonical`'s matter.

Rules covered here: E3, E4, E6, E8, E10, and the inside of E9.  Source: discovery.k8s.io/v1, v1
Endpoints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from clusters.addresses import IPV4, IPV6, canonical, numeric_key
from clusters.errors import AddressError
from clusters.manifests import Reference
from clusters.model import Endpoint, Manifest, Port, PortSet, Skipped
from clusters.slice_names import is_dns_label, is_dns_name, texts

LABEL_SERVICE = "kubernetes.io/service-name"
ANNOTATION_TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
ANNOTATION_LEADER = "control-plane.alpha.kubernetes.io/leader"
ANNOTATION_OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
_LONGEST_SHOWN = 80
_LONGEST_TEXT = 253
_LONGEST_APP_PROTOCOL = 317
"""A qualified name: a DNS name of 253, a slash, and 63."""
_MOST_ADDRESSES = 100
_MOST_PORTS = 100
_TOP_PORT = 65535
_PROTOCOLS = frozenset({"TCP", "UDP", "SCTP"})
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SortKey = tuple[tuple[int, int], tuple[tuple[str, int, str, str], ...]]


class Unusable(Exception):  # noqa: N818 - a verdict between functions, never an error to see
    """A field is not what its schema says; the argument is the reason."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One address under one port set, as one object states it."""

    endpoint: Endpoint
    uid: str | None
    """uid of the thing behind it (targetRef), None when not given."""
    order: SortKey
    """Where it stands among the endpoints of its service."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything one object states about its service."""

    claims: tuple[Claim, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    trigger: int | None = None
    """When the cause of the object's last change happened, ns since 1970; None when not stated."""
    arrival: int = 0
    """Rises whenever an object of the cluster states something new (E2: the later change)."""

    def states_the_same(self, other: Reading) -> bool:
        """Equal but for when it was stated."""
        return self.claims == other.claims and self.skipped == other.skipped


def trigger_time(manifest: Manifest) -> int | None:
    """The last-change-trigger-time in ns since 1970, exact; None if absent or spoiled."""
    return parse_time(texts(manifest, "annotations").get(ANNOTATION_TRIGGER, ""))


def parse_time(text: str) -> int | None:
    """RFC 3339 to nanoseconds since 1970 (any fraction, any offset); None for anything else."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    day, minute, second, fraction, sign, hours, minutes = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{minute}:00+00:00")
    except ValueError:
        return None
    seconds = (moment - _EPOCH) // timedelta(seconds=1) + int(second)
    offset = int(hours or 0) * 3600 + int(minutes or 0) * 60
    seconds += offset if sign == "-" else -offset
    return seconds * 1_000_000_000 + int((fraction or "0").ljust(9, "0"))


def port_key(ports: PortSet) -> tuple[tuple[str, int, str, str], ...]:
    """Sort key of a port set; all ports come first."""
    return () if ports is None else tuple(port.sort_key() for port in ports)


def order_of(endpoint: Endpoint) -> SortKey:
    """Canonical order within a service: family, numeric address, ports."""
    return (numeric_key(endpoint.address), port_key(endpoint.ports))


def _text(value: object, limit: int = _LONGEST_TEXT) -> str | None:
    """A text that can travel; "" and null are None."""
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > limit:
        raise Unusable
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Unusable from error
    return value


def _shown(value: object) -> str:
    """A refused address, fit to be shown."""
    text = value if isinstance(value, str) else repr(value)
    return text[:_LONGEST_SHOWN].encode("utf-8", "backslashreplace").decode()


def _port(value: object) -> Port:
    if not isinstance(value, dict):
        raise Unusable
    name, number = value.get("name"), value.get("port")
    if number is not None and (type(number) is not int or not 1 <= number <= _TOP_PORT):
        raise Unusable
    if name not in (None, "") and not (isinstance(name, str) and is_dns_label(name)):
        raise Unusable
    protocol = value.get("protocol")
    protocol = "TCP" if protocol is None or protocol == "" else protocol
    if not isinstance(protocol, str) or protocol not in _PROTOCOLS:
        raise Unusable
    app_protocol = _text(value.get("appProtocol"), _LONGEST_APP_PROTOCOL)
    return Port(name or "", number, protocol, app_protocol)


def read_ports(value: object, name: str, skipped: list[Skipped]) -> PortSet:
    """The canonical port set of a ``ports`` field; null, like an absent field, means all ports.

    Unusable ports are left out with reason ``bad_port``.  An empty tuple, which is no port set,
    says that nothing usable is there.
    """
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > _MOST_PORTS:
        skipped.append(Skipped("bad_ports", name))
        return ()
    found: set[Port] = set()
    for item in value:
        try:
            found.add(_port(item))
        except Unusable:
            skipped.append(Skipped("bad_port", name))
    if not value:
        skipped.append(Skipped("no_ports", name))
    return tuple(sorted(found, key=Port.sort_key))


def read_conditions(value: object) -> tuple[bool, bool, bool]:
    """(ready, serving, terminating) with what is absent filled in (E3).

    Raises :class:`Unusable` for anything but a mapping of truth values.
    """
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise Unusable
    ready, serving = value.get("ready"), value.get("serving")
    terminating = value.get("terminating")
    for condition in (ready, serving, terminating):
        if condition is not None and not isinstance(condition, bool):
            raise Unusable
    ready = True if ready is None else ready
    return ready, ready if serving is None else serving, bool(terminating)


def _target(value: object) -> tuple[str | None, str | None]:
    """(uid, pod name) of a targetRef."""
    if value is None:
        return None, None
    if not isinstance(value, dict):
        raise Unusable
    pod = _text(value.get("name")) if value.get("kind") == "Pod" else None
    return _text(value.get("uid")), pod


@dataclass(frozen=True, slots=True)
class _Statement:
    """What an object says of some address, before the address is looked at."""

    ports: PortSet
    conditions: tuple[bool, bool, bool]
    hostname: str | None
    zone: str | None
    node: str | None
    pod: str | None
    uid: str | None

    def claim(self, address: str) -> Claim:
        ready, serving, terminating = self.conditions
        endpoint = Endpoint(
            address=address,
            ports=self.ports,
            ready=ready,
            serving=serving,
            terminating=terminating,
            hostname=self.hostname,
            zone=self.zone,
            node=self.node,
            pod=self.pod,
        )
        return Claim(endpoint, self.uid, order_of(endpoint))


def _statement(value: Manifest, ports: PortSet, conditions: tuple[bool, bool, bool]) -> _Statement:
    uid, pod = _target(value.get("targetRef"))
    return _Statement(
        ports=ports,
        conditions=conditions,
        hostname=_text(value.get("hostname")),
        zone=_text(value.get("zone")),
        node=_text(value.get("nodeName")),
        pod=pod,
        uid=uid,
    )


def _first_address(value: object) -> str | None:
    """Some address to name a refused endpoint by."""
    found: Any = value.get("addresses", value.get("ip")) if isinstance(value, dict) else None
    if isinstance(found, list):
        found = found[0] if found else None
    return None if found is None else _shown(found)


def _slice_entry(entry: object, ports: PortSet) -> tuple[list[object], _Statement]:
    """The addresses of one entry of a slice, and what it says of them."""
    addresses = entry.get("addresses") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(addresses, list):
        raise Unusable
    if not 1 <= len(addresses) <= _MOST_ADDRESSES:
        raise Unusable
    return addresses, _statement(entry, ports, read_conditions(entry.get("conditions")))


def _slice_claims(
    entry: object, family: str, ports: PortSet, name: str, skipped: list[Skipped]
) -> Iterator[Claim]:
    try:
        addresses, statement = _slice_entry(entry, ports)
    except Unusable:
        skipped.append(Skipped("bad_endpoint", name, _first_address(entry)))
        return
    for address in addresses:
        try:
            yield statement.claim(canonical(address, family))
        except AddressError as error:
            skipped.append(Skipped(error.reason, name, _shown(address)))


def read_slice(manifest: Manifest, reference: Reference, arrival: int) -> Reading:
    """What an EndpointSlice of the local cluster states; ``arrival`` numbers the change."""
    name = str(reference)
    skipped: list[Skipped] = []
    claims: list[Claim] = []
    family = manifest.get("addressType")
    if family == "FQDN":
        skipped.append(Skipped("fqdn", name))
    elif not isinstance(family, str) or family not in {IPV4, IPV6}:
        skipped.append(Skipped("address_type", name))
    else:
        ports = read_ports(manifest.get("ports"), name, skipped)
        endpoints = manifest.get("endpoints")
        if endpoints is not None and not isinstance(endpoints, list):
            skipped.append(Skipped("bad_endpoints", name))
        elif ports != ():
            for endpoint in endpoints or ():
                claims += _slice_claims(endpoint, family, ports, name, skipped)
    return _reading(manifest, claims, skipped, arrival)


def _reading(
    manifest: Manifest, claims: list[Claim], skipped: list[Skipped], arrival: int
) -> Reading:
    ordered = tuple(sorted(set(skipped), key=skipped_key))
    return Reading(tuple(claims), ordered, trigger_time(manifest), arrival)


def skipped_key(skipped: Skipped) -> tuple[str, str, str]:
    """Canonical order of skipped things."""
    return (skipped.object, skipped.reason, skipped.address or "")


def read_endpoints(manifest: Manifest, reference: Reference, arrival: int) -> Reading:
    """What an Endpoints object states: every address of every subset, ready ones as such."""
    name = str(reference)
    skipped: list[Skipped] = []
    claims: list[Claim] = []
    if texts(manifest, "annotations").get(ANNOTATION_OVER_CAPACITY) == "truncated":
        skipped.append(Skipped("truncated", name))
    subsets = manifest.get("subsets")
    if subsets is not None and not isinstance(subsets, list):
        skipped.append(Skipped("bad_endpoints", name))
        subsets = None
    for subset in subsets or ():
        if isinstance(subset, dict):
            claims += _subset_claims(subset, name, skipped)
        else:
            skipped.append(Skipped("bad_endpoints", name))
    return _reading(manifest, claims, skipped, arrival)


def _subset_claims(subset: Manifest, name: str, skipped: list[Skipped]) -> Iterator[Claim]:
    ports = read_ports(subset.get("ports"), name, skipped)
    if ports == ():
        return
    for field, ready in (("addresses", True), ("notReadyAddresses", False)):
        entries = subset.get(field)
        if entries is not None and not isinstance(entries, list):
            skipped.append(Skipped("bad_endpoints", name))
            continue
        for entry in entries or ():
            try:
                yield _subset_claim(entry, ports, ready=ready)
            except Unusable:
                skipped.append(Skipped("bad_endpoint", name, _first_address(entry)))
            except AddressError as error:
                skipped.append(Skipped(error.reason, name, _shown(entry.get("ip"))))


def _subset_claim(entry: object, ports: PortSet, *, ready: bool) -> Claim:
    """What one address of a subset states; raises :class:`Unusable` or AddressError."""
    if not isinstance(entry, dict):
        raise Unusable
    address = entry.get("ip")
    statement = _statement(entry, ports, (ready, ready, False))
    family = IPV6 if isinstance(address, str) and ":" in address else IPV4
    return statement.claim(canonical(address, family))


def is_leader_election(manifest: Manifest) -> bool:
    """Whether the object only serves as a lock, changing every other second (C17)."""
    return ANNOTATION_LEADER in texts(manifest, "annotations")


def service_label(manifest: Manifest) -> tuple[str | None, str]:
    """(service, "") by a slice's service label, or (None, reason) when it names none (E11)."""
    metadata = manifest.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    value = labels.get(LABEL_SERVICE) if isinstance(labels, dict) else None
    if value is None or value == "":
        return None, "no_service_label"
    if not isinstance(value, str) or not is_dns_name(value):
        return None, "bad_service_label"
    return value, ""
