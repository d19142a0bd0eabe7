"""One EndpointSlice of ours as an object: writing it, and reading back what the server shows of it.

Reading applies the API server's defaults (protocol, names, conditions, null and empty port lists),
so that what was written compares equal to what is shown, and knows only the fields we own: unknown
fields and labels or annotations of others never make a difference, and an update keeps them.

Source: discovery.k8s.io/v1 and its validation in the API server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import eq
from typing import Any

from clusters.addresses import numeric_key
from clusters.belonging import NOWHERE, Belonging, owned_by, owners
from clusters.model import MANAGED_BY, Endpoint, Manifest, Port, PortSet, ServiceKey, Skipped
from clusters.readings import Unusable, order_of, read_conditions, read_ports
from clusters.slice_names import (
    ANNOTATION_KEY,
    ANNOTATION_PODS,
    LABEL_MANAGED_BY,
    LABEL_PROXIED,
    LABEL_SERVICE,
    LABEL_SOURCE_CLUSTER,
    GroupKey,
    is_dns_label,
    is_dns_name,
    key_annotation,
    label_value,
    slice_name,
    source_cluster_of,
    stored_key,
    texts,
)

_OWN_LABELS = (LABEL_MANAGED_BY, LABEL_SERVICE, LABEL_SOURCE_CLUSTER, LABEL_PROXIED)
_OWN_ANNOTATIONS = (ANNOTATION_KEY, ANNOTATION_PODS)
_NEVER_WRITTEN = ("nodeName", "targetRef", "hints", "deprecatedTopology")
_MOST_ADDRESSES = 100
"""Addresses of one endpoint that the API server takes."""
_MOST_PORTS = 100
_TOP_PORT = 65535
_MOST_POD_BYTES = 128 * 1024
"""Of 256 KiB that all annotations of an object may have."""
_PROTOCOLS = frozenset({"TCP", "UDP", "SCTP"})
_NAME_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
"""A label value that is not empty; also the name in a qualified name."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One entry of a slice's ``endpoints``: addresses that are one endpoint, and their state."""

    addresses: tuple[str, ...]
    ready: bool
    serving: bool
    terminating: bool
    hostname: str | None = None
    zone: str | None = None
    pod: str | None = field(default=None, compare=False)
    """In the source cluster; written into, and compared as, an annotation of the slice."""
    spoiled: bool = False
    """Read back with something that we never write: has to be restored."""

    def manifest(self) -> Manifest:
        """The entry as written: conditions spelled out, absent texts left out."""
        conditions = {
            "ready": self.ready,
            "serving": self.serving,
            "terminating": self.terminating,
        }
        entry: Manifest = {"addresses": list(self.addresses), "conditions": conditions}
        if self.hostname is not None:
            entry["hostname"] = self.hostname
        if self.zone is not None:
            entry["zone"] = self.zone
        return entry


def refusal(ports: PortSet) -> str:
    """Why the API server would refuse a slice with these ports, or "" when it would not."""
    if ports is None:
        return ""
    if not ports or len(ports) > _MOST_PORTS:
        return "too_many_ports" if ports else "no_ports"
    if len({port.name for port in ports}) < len(ports):
        return "duplicate_port_name"
    return next((reason for reason in map(_port_refusal, ports) if reason), "")


def _port_refusal(port: Port) -> str:
    if port.name and not is_dns_label(port.name):
        return "bad_port_name"
    if port.port is not None and not 1 <= port.port <= _TOP_PORT:
        return "bad_port"
    if port.protocol not in _PROTOCOLS:
        return "bad_protocol"
    if port.app_protocol is not None and not is_qualified_name(port.app_protocol):
        return "bad_app_protocol"
    return ""


def is_label_value(text: str) -> bool:
    """Whether ``text`` is a label's value as Kubernetes takes it; "" is one."""
    return not text or _NAME_PART.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """Whether ``text`` is a Kubernetes qualified name: ``[DNS name/]name``."""
    prefix, slash, name = text.rpartition("/")
    return _NAME_PART.fullmatch(name) is not None and (not slash or is_dns_name(prefix))


def units_of(endpoints: Iterable[Endpoint], *, share_zones: bool) -> tuple[Unit, ...]:
    """Endpoints of one group as entries, in order of address.

    Addresses under one host name that agree in everything else are one endpoint with several
    addresses, as they were in the source.  A host name that is no DNS label, which the API server
    would refuse, is left out.
    """
    members: dict[Endpoint | str, list[Endpoint]] = {}
    for endpoint in sorted(endpoints, key=order_of):
        named = is_dns_label(endpoint.hostname or "")
        alike = replace(endpoint, address="", ports=None) if named else endpoint.address
        members.setdefault(alike, []).append(endpoint)
    units = (
        _unit(group[start : start + _MOST_ADDRESSES], share_zones=share_zones)
        for group in members.values()
        for start in range(0, len(group), _MOST_ADDRESSES)
    )
    return tuple(sorted(units, key=_unit_order))


def _unit(endpoints: Sequence[Endpoint], *, share_zones: bool) -> Unit:
    """One entry for endpoints that differ in nothing but the address."""
    first = endpoints[0]
    zone_fits = share_zones and _NAME_PART.fullmatch(first.zone or "") is not None
    return Unit(
        addresses=tuple(dict.fromkeys(endpoint.address for endpoint in endpoints)),
        ready=first.ready,
        serving=first.serving,
        terminating=first.terminating,
        hostname=first.hostname if is_dns_label(first.hostname or "") else None,
        zone=first.zone if zone_fits else None,
        pod=first.pod,
    )


def _unit_order(unit: Unit) -> tuple[int, int]:
    return numeric_key(unit.addresses[0])


def _pods_annotation(units: Iterable[Unit]) -> str | None:
    pods = {address: unit.pod for unit in units if unit.pod for address in unit.addresses}
    text = json.dumps(pods, sort_keys=True, separators=(",", ":"))
    return text if pods and len(text) <= _MOST_POD_BYTES else None


def _port_manifest(port: Port) -> Manifest:
    entry: Manifest = {"name": port.name, "protocol": port.protocol}
    if port.port is not None:
        entry["port"] = port.port
    if port.app_protocol is not None:
        entry["appProtocol"] = port.app_protocol
    return entry


@dataclass(frozen=True, slots=True)
class Desired:
    """One shard of a group as it shall be; its object is only made when it has to be written."""

    service: ServiceKey
    group: GroupKey
    shard: int
    ports: PortSet
    units: Sequence[Unit]
    belonging: Belonging = NOWHERE

    def labels(self) -> dict[str, str]:
        """Every label of ours."""
        found = {
            LABEL_MANAGED_BY: MANAGED_BY,
            LABEL_SERVICE: label_value(self.service.name),
            LABEL_SOURCE_CLUSTER: self.group.cluster,
        }
        proxied = self.belonging.proxied
        return found if proxied is None else {**found, LABEL_PROXIED: proxied}

    def owners(self, observed: Manifest) -> list[Any]:
        """Owner references it shall have, given those it has: others' are kept."""
        return owned_by(observed, self.belonging.owner)

    def annotations(self) -> dict[str, str]:
        """Every annotation of ours that it needs."""
        found = {ANNOTATION_KEY: key_annotation(self.service.name, self.group, self.shard)}
        pods = _pods_annotation(self.units)
        return found if pods is None else {**found, ANNOTATION_PODS: pods}

    def manifest(self) -> Manifest:
        """The whole object."""
        ports = None if self.ports is None else [_port_manifest(port) for port in self.ports]
        metadata: Manifest = {
            "name": slice_name(self.service, self.group, self.shard),
            "namespace": self.service.namespace,
            "labels": self.labels(),
            "annotations": self.annotations(),
        }
        if self.belonging.owner is not None:
            metadata["ownerReferences"] = [self.belonging.owner]
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": metadata,
            "addressType": self.group.family,
            "ports": ports,
            "endpoints": [unit.manifest() for unit in sorted(self.units, key=_unit_order)],
        }


def updated(observed: Manifest, desired: Desired) -> Manifest:
    """``observed`` as ``desired``: its identity, and what others put on it, are kept."""
    fresh = desired.manifest()
    metadata = {**observed["metadata"], **fresh["metadata"]}
    metadata.pop("managedFields", None)
    metadata["ownerReferences"] = desired.owners(observed)
    if not metadata["ownerReferences"]:
        del metadata["ownerReferences"]
    for part, own in (("labels", _OWN_LABELS), ("annotations", _OWN_ANNOTATIONS)):
        foreign = {name: text for name, text in texts(observed, part).items() if name not in own}
        metadata[part] = {**foreign, **fresh["metadata"][part]}
    return {**fresh, "metadata": metadata}


@dataclass(frozen=True, slots=True)
class Observed:
    """A slice of ours as the cluster shows it, defaults applied."""

    manifest: Manifest
    name: str
    cluster: str | None
    """Source cluster; None when nothing on the object tells any more."""
    stored: tuple[str, GroupKey, int] | None
    family: str
    ports: PortSet
    units: tuple[Unit, ...]
    spoiled: bool
    """Something in it cannot be read: has to be restored."""

    @property
    def addresses(self) -> list[str]:
        """All addresses it holds."""
        return [address for unit in self.units for address in unit.addresses]

    def holds_exactly(self, units: Sequence[Unit]) -> bool:
        """Whether its endpoints are ``units`` (without repeats), in any order."""
        if self.spoiled or len(self.units) != len(units):
            return False
        return all(map(eq, self.units, units)) or set(self.units) == set(units)

    def in_sync_with(self, desired: Desired) -> bool:
        """Whether writing ``desired`` would change nothing."""
        return (
            self.family == desired.group.family
            and self.ports == desired.ports
            and self.holds_exactly(desired.units)
            and owners(self.manifest) == desired.owners(self.manifest)
            and _own(self.manifest, "labels", _OWN_LABELS) == desired.labels()
            and _own(self.manifest, "annotations", _OWN_ANNOTATIONS) == desired.annotations()
        )


def _own(manifest: Manifest, part: str, names: tuple[str, ...]) -> dict[str, str]:
    """Our labels or annotations as an object has them."""
    found = texts(manifest, part)
    return {name: found[name] for name in names if name in found}


def observe(manifest: Manifest) -> Observed:
    """Read a slice of ours back; never fails, whatever was made of it meanwhile."""
    faults: list[Skipped] = []
    ports = read_ports(manifest.get("ports") or None, "", faults)
    pods = _stored_pods(manifest)
    endpoints = manifest.get("endpoints") or []
    family = manifest.get("addressType")
    listed = endpoints if isinstance(endpoints, list) else []
    units = [_read_unit(item, pods) for item in listed]
    return Observed(
        manifest=manifest,
        name=manifest["metadata"]["name"],
        cluster=source_cluster_of(manifest),
        stored=stored_key(manifest),
        family=family if isinstance(family, str) else "",
        ports=ports,
        units=tuple(unit for unit in units if unit is not None),
        spoiled=bool(faults) or listed is not endpoints or None in units,
    )


def _stored_pods(manifest: Manifest) -> dict[str, str]:
    text = texts(manifest, "annotations").get(ANNOTATION_PODS, "{}")
    try:
        pods = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return pods if isinstance(pods, dict) else {}


def _is_address(value: object) -> bool:
    try:
        return isinstance(value, str) and numeric_key(value) > (0, 0)
    except ValueError:
        return False


def _read_unit(entry: object, pods: dict[str, str]) -> Unit | None:
    """One entry of ``endpoints``; None when it cannot be read."""
    if not isinstance(entry, dict):
        return None
    addresses, hostname, zone = (entry.get(name) for name in ("addresses", "hostname", "zone"))
    if not isinstance(addresses, list) or not addresses or not all(map(_is_address, addresses)):
        return None
    if not isinstance(hostname, str | None) or not isinstance(zone, str | None):
        return None
    try:
        ready, serving, terminating = read_conditions(entry.get("conditions"))
    except Unusable:
        return None
    pod = pods.get(addresses[0])
    return Unit(
        addresses=tuple(addresses),
        ready=ready,
        serving=serving,
        terminating=terminating,
        hostname=hostname or None,
        zone=zone or None,
        pod=pod if isinstance(pod, str) else None,
        spoiled=any(entry.get(name) is not None for name in _NEVER_WRITTEN),
    )
