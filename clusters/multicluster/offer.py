"""One cluster's export of a service, read into values that can be compared and written.

What another cluster states may be any JSON.  Reading never fails: what the API server would refuse
in a field counts as absent, and absent fields get the API server's own defaults, so that a default
spelled out and one left out are no conflict.

Source: KEP-1645, v1 Service, mcs-api v0.5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clusters.model import ExportedService, Port
from clusters.readings import parse_time, read_ports
from clusters.slice_manifests import is_label_value, is_qualified_name, refusal

CLIENT_IP = "ClientIP"
HEADLESS = "Headless"
CLUSTER_SET_IP = "ClusterSetIP"
RESERVED = ("multicluster.kubernetes.io/", "replicator.dev/")
"""Prefixes of labels and annotations that nobody exports: they say what an import is."""
_DEFAULT_AFFINITY_SECONDS = 10800
_TOP_AFFINITY_SECONDS = 86400
_FAMILIES = ("IPv4", "IPv6")

Texts = tuple[tuple[str, str], ...]
"""Labels or annotations, in order of name."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What one cluster states about the service it exports."""

    cluster: str
    created_at: int | None = None
    """When it began to export, ns since 1970; None when not stated, which counts as last."""
    headless: bool = False
    ports: tuple[Port, ...] = ()
    """As declared by the Service: unique names, each with a number; in canonical order."""
    affinity: str = "None"
    affinity_seconds: int | None = None
    """Only with affinity :data:`CLIENT_IP`."""
    internal_policy: str = "Cluster"
    distribution: str | None = None
    families: tuple[str, ...] = ()
    """Preferred first; empty when not stated."""
    labels: Texts = ()
    annotations: Texts = ()

    @property
    def age(self) -> tuple[bool, int, str]:
        """Sorts offers from oldest to youngest, the same way everywhere."""
        return (self.created_at is None, self.created_at or 0, self.cluster)

    @property
    def type(self) -> str:
        """``spec.type`` of a ServiceImport."""
        return HEADLESS if self.headless else CLUSTER_SET_IP


def read_offer(cluster: str, export: ExportedService) -> Offer | None:
    """What an export offers; None when it says nothing about a Service, so offers nothing."""
    fields = dict(export.properties)
    if fields.get("type") not in (HEADLESS, CLUSTER_SET_IP):
        return None
    affinity = CLIENT_IP if fields.get("sessionAffinity") == CLIENT_IP else "None"
    distribution = fields.get("trafficDistribution")
    named = isinstance(distribution, str) and is_qualified_name(distribution)
    return Offer(
        cluster=cluster,
        created_at=parse_time(export.created_at or ""),
        headless=fields["type"] == HEADLESS,
        ports=_ports(fields.get("ports")),
        affinity=affinity,
        affinity_seconds=_seconds(fields) if affinity == CLIENT_IP else None,
        internal_policy="Local" if fields.get("internalTrafficPolicy") == "Local" else "Cluster",
        distribution=str(distribution) if named else None,
        families=_families(fields.get("ipFamilies")),
        labels=_texts(fields.get("exportedLabels"), labels=True),
        annotations=_texts(fields.get("exportedAnnotations"), labels=False),
    )


def _ports(value: object) -> tuple[Port, ...]:
    """Ports that can stand in a Service together; of two that cannot, the first in order."""
    found: list[Port] = []
    for port in read_ports(value or None, "", []) or ():
        if port.port is not None and not refusal((port,)) and fits(port, found):
            found.append(port)
    return tuple(found)


def fits(port: Port, others: list[Port]) -> bool:
    """Whether ``port`` can stand in one Service with ``others``, as the API server sees it.

    Names differ, pairs of protocol and number differ, and of several ports each has a name.
    """
    return all(
        port.name
        and other.name
        and port.name != other.name
        and (port.protocol, port.port) != (other.protocol, other.port)
        for other in others
    )


def _mapping(value: object) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _seconds(fields: dict[str, Any]) -> int:
    config = _mapping(_mapping(fields.get("sessionAffinityConfig")).get("clientIP"))
    seconds = config.get("timeoutSeconds")
    if type(seconds) is int and 0 < seconds <= _TOP_AFFINITY_SECONDS:
        return seconds
    return _DEFAULT_AFFINITY_SECONDS


def _families(value: object) -> tuple[str, ...]:
    listed: list[Any] = value if isinstance(value, list) else []
    return tuple(dict.fromkeys(item for item in listed if item in _FAMILIES))


def _texts(value: object, *, labels: bool) -> Texts:
    """Labels or annotations that an import can have."""
    return tuple(
        sorted(
            (name, text)
            for name, text in _mapping(value).items()
            if isinstance(name, str)
            and isinstance(text, str)
            and is_qualified_name(name)
            and not name.startswith(RESERVED)
            and (is_label_value(text) if labels else _is_unicode(text))
        )
    )


def _is_unicode(text: str) -> bool:
    """Whether a text can be written (JSON can name half characters)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
