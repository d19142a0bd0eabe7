"""What a cluster is to the replicator: its model, its meaning, and the writes it needs.

A leaf package: it knows neither the replicated set nor the replicator.
"""

from __future__ import annotations

from clusters.base import Clock, Cluster, ClusterHealth, KeySink, ResourceHealth
from clusters.catalog import ServiceCatalog, Touched, services_of
from clusters.errors import (
    AddressError,
    ClusterError,
    ClusterUnavailableError,
    LeaseConflictError,
    ManifestError,
    NamespaceUnavailableError,
    WriteError,
)
from clusters.lease import LeaseClaim, LeaseRecord, LeaseStore
from clusters.model import (
    ChangeOp,
    Endpoint,
    ExportedService,
    LocalService,
    Manifest,
    Port,
    PortSet,
    ServiceKey,
    Skipped,
    SliceChange,
)
from clusters.settings import ExportMode, NamespaceFilter
from clusters.slices import SliceSettings, plan
from clusters.work_queue import BackOff, WorkQueue

__all__ = [
    "AddressError",
    "BackOff",
    "ChangeOp",
    "Clock",
    "Cluster",
    "ClusterError",
    "ClusterHealth",
    "ClusterUnavailableError",
    "Endpoint",
    "ExportMode",
    "ExportedService",
    "KeySink",
    "LeaseClaim",
    "LeaseConflictError",
    "LeaseRecord",
    "LeaseStore",
    "LocalService",
    "Manifest",
    "ManifestError",
    "NamespaceFilter",
    "NamespaceUnavailableError",
    "Port",
    "PortSet",
    "ResourceHealth",
    "ServiceCatalog",
    "ServiceKey",
    "Skipped",
    "SliceChange",
    "SliceSettings",
    "Touched",
    "WorkQueue",
    "WriteError",
    "plan",
    "services_of",
]
