"""What the replicator knows of a cluster: services, their endpoints, and changes to our own slices.

Plain frozen values without behaviour.  An endpoint's identity is (namespace, service, canonical
address, port set); everything else is value.  ``ports`` None means "all ports" (EndpointSlice
``ports: null``); it is never an empty tuple.  Texts that are absent are None, except port names,
whose absence is "" (Kubernetes' own default).

Source: discovery.k8s.io/v1 EndpointSlice, v1 Endpoints, KEP-1645.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Manifest = dict[str, Any]
"""A Kubernetes object as decoded from JSON or YAML."""

MANAGED_BY = "crdt-replicator"
"""Value of ``endpointslice.kubernetes.io/managed-by`` on every slice we write."""


@dataclass(frozen=True, slots=True, order=True)
class ServiceKey:
    """A service within one cluster."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Port:
    """One port of a port set; ``port`` None means the slice named no number (kept, never 0)."""

    name: str = ""
    port: int | None = None
    protocol: str = "TCP"
    app_protocol: str | None = None

    def sort_key(self) -> tuple[str, int, str, str]:
        """Canonical order inside a port set: name, number (none first), protocol, application."""
        return (
            self.name,
            -1 if self.port is None else self.port,
            self.protocol,
            self.app_protocol or "",
        )


PortSet = tuple[Port, ...] | None
"""A canonical port set: sorted by :meth:`Port.sort_key` without repeats, or None for all ports."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of one service under one port set, with its state.

    ``address`` is canonical (RFC 5952, lower case) and passed the rules of kubernetes.md E8.
    """

    address: str
    ports: PortSet
    ready: bool = True
    serving: bool = True
    terminating: bool = False
    hostname: str | None = None
    zone: str | None = None
    node: str | None = None
    pod: str | None = None

    @property
    def family(self) -> str:
        """``"IPv6"`` or ``"IPv4"``: the addressType of the slice this endpoint is written into."""
        return "IPv6" if ":" in self.address else "IPv4"

    @property
    def identity(self) -> tuple[str, PortSet]:
        """What makes it this endpoint and no other within its service."""
        return (self.address, self.ports)


@dataclass(frozen=True, slots=True)
class ExportedService:
    """That a service is offered to the clusterset, with the Service properties importers need.

    ``created_at`` orders conflicting exports (oldest wins); None when the source has no Service
    object.  ``properties`` holds the remaining fields of the Multi-Cluster Services merge by their
    Kubernetes names (``type``, ``sessionAffinity``, ``ports`` ...), JSON values only.
    """

    created_at: str | None = None
    properties: tuple[tuple[str, Any], ...] = ()


class Standing(StrEnum):
    """What an export finds under its name; values are reasons of the condition ``Valid``."""

    VALID = "Valid"
    NO_SERVICE = "NoService"
    INVALID_TYPE = "InvalidServiceType"
    """A Service of type ExternalName."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something in the source that is not replicated, and why; never an error."""

    reason: str
    object: str
    """``Kind/namespace/name``."""
    address: str | None = None


@dataclass(frozen=True, slots=True)
class LocalService:
    """Everything the local cluster says about one service, computed level-based.

    ``endpoints`` are unique by identity and sorted by (family, numeric address, ports); ``export``
    None means the service is not exported (its endpoints are then not visible elsewhere).
    """

    key: ServiceKey
    endpoints: tuple[Endpoint, ...] = ()
    export: ExportedService | None = None
    skipped: tuple[Skipped, ...] = ()
    standing: Standing = Standing.NO_SERVICE
    """Whether there is a Service of this name that can be exported."""


class ChangeOp(StrEnum):
    """What a :class:`SliceChange` does."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class SliceChange:
    """One planned write to an object of ours, of whatever kind.

    ``manifest`` is the full desired object for CREATE and UPDATE (with the observed
    ``resourceVersion`` and ``uid`` in its metadata for UPDATE) and the observed object for DELETE.
    """

    op: ChangeOp
    manifest: Manifest = field(hash=False)
    subresource: str = ""
    """``status`` for a write of nothing but that, "" for one of everything else."""

    @property
    def kind(self) -> str:
        """Kind of the object."""
        return str(self.manifest["kind"])

    @property
    def namespace(self) -> str:
        """Namespace of the object."""
        return str(self.manifest["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """Name of the object."""
        return str(self.manifest["metadata"]["name"])
