"""Bounds of the Kubernetes side, all in one place (numbers in brackets in kubernetes.md)."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How collections are listed and watched.  Durations in seconds, sizes in bytes."""

    watch_seconds: int = 300
    """After this long the server should end a watch."""
    grace_seconds: float = 30.0
    """After this much more we end it ourselves: the connection is dead."""
    answer_seconds: float = 30.0
    """For the headers of any answer, and for each page of a list."""
    page_items: int = 500
    page_bytes: int = 64 * _MIB
    """A larger page is asked for again with half the items."""
    line_bytes: int = 8 * _MIB
    """A longer event is skipped and its object listed."""
    audit_seconds: float = 600.0
    """Latest time between two complete lists; each is up to a quarter earlier, at random."""
    silent_seconds: float = 120.0
    """A watch that missed changes and said nothing for this long was on a history that is gone."""
    list_restarts: int = 3
    """How often an expired list is begun anew at once."""
    short_seconds: float = 5.0
    """A watch that ends sooner counts as a failure, so no server makes us spin."""
    fresh_seconds: float = 60.0
    """A version refused as expired this soon after its list is a failure, not a mere gap."""
    back_off_first: float = 1.0
    back_off_most: float = 60.0
    healthy_seconds: float = 120.0
    """Health for this long forgets earlier failures."""
    retry_after_most: float = 600.0
    """Longest wait a server may ask for."""


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """Everything that bounds one :class:`~clusters.kubernetes.cluster.KubernetesCluster`."""

    watch: WatchSettings = WatchSettings()
    read_endpoints: bool = True
    """Whether v1 Endpoints are read for services without slices."""
    multicluster: bool = False
    """Whether objects of the Multi-Cluster Services API are watched as ours to write."""
    write_seconds: float = 30.0
    """For one write to be answered."""
    writes_per_second: float = 50.0
    write_burst: int = 100
    lease_seconds: float = 3.0
    """For one call about the lease; three of them fit into the 10 s between two renewals."""
    conflict_reads: int = 5
    """How often in a row an object is read again after a conflict; later the watch must show it."""
    deaths: int = 3
    deaths_within: float = 300.0
    """This many deaths of one watch task within this time make the process unhealthy."""
