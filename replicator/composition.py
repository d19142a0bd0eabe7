"""Builds the parts of an agent that a configuration chooses between, and restores what was kept.

The only place that knows every kind of source and target.  The Kubernetes client is imported only
when it is used: it alone takes seconds to load.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import structlog

from clusters.base import Clock, Cluster
from clusters.directory import DirectoryCluster
from clusters.kubernetes import KubernetesSettings
from clusters.lease import LeaseStore
from clusters.settings import ExportMode, NamespaceFilter
from clusters.simulated import SimulatedCluster
from crdt import Origin, OriginSet, StampClock
from replicator.codec import decode_head, decode_record
from replicator.config import Config
from replicator.errors import JournalError, ProtocolError
from replicator.journal import OwnState, RemoteState
from replicator.networks import AllowLists
from replicator.others import Others
from replicator.own_origin import OwnOrigin
from replicator.planners import AdmittingPlanner, MulticlusterPlanner, Planner, SlicePlanner
from replicator.remote_origin import RemoteOrigin
from replicator.signing import Signer

_log = structlog.get_logger()


async def make_clusters(
    config: Config, clock: Clock, rng: random.Random, environ: Mapping[str, str]
) -> tuple[Cluster, Cluster | None]:
    """The source and the target; one object when they are the same cluster, None for no target."""
    source, target = config.source, config.target
    namespaces = NamespaceFilter(
        include=source.namespaces.include, exclude=source.namespaces.exclude
    )
    export = ExportMode(source.export)

    def directory(read: Path | None, write: Path | None) -> DirectoryCluster:
        return DirectoryCluster(
            cluster=config.cluster,
            source=read,
            target=write,
            export=export,
            namespaces=namespaces,
            clock=clock,
        )

    written = target.path if target.mode == "directory" else None
    if source.kind == "directory":
        both = directory(source.path, written)
        return both, both if written is not None else None
    if source.kind == "simulated":
        made = SimulatedCluster(
            cluster=config.cluster,
            seed=source.seed,
            services=source.services,
            endpoints=source.endpoints,
            churn=source.churn,
            duration=source.duration,
            clock=clock,
        )
        return made, None if written is None else directory(None, written)
    from clusters.kubernetes.cluster import KubernetesCluster  # noqa: PLC0415 - slow to import

    kube = await KubernetesCluster.from_kubeconfig(
        None if source.kubeconfig is None else str(source.kubeconfig),
        source.context,
        cluster=config.cluster,
        export=export,
        namespaces=namespaces,
        clock=clock,
        rng=rng,
        settings=KubernetesSettings(multicluster=target.mode == "mcs"),
        environ=environ,
    )
    if written is not None:
        return kube, directory(None, written)
    return kube, kube if target.mode in ("endpointslices", "mcs") else None


def make_lease(config: Config, source: Cluster) -> LeaseStore | None:
    """The lease that the agents of this cluster share, kept by its source; None without one."""
    if not config.lease.enabled:
        return None
    if isinstance(source, DirectoryCluster):
        return source.lease()
    from clusters.kubernetes.cluster import KubernetesCluster  # noqa: PLC0415 - slow to import

    assert isinstance(source, KubernetesCluster)  # noqa: S101 - the configuration was checked
    name = config.lease.name or f"replicator-{config.cluster}"
    return source.lease(config.lease.namespace, name)


def restore_own(origin: Origin, signer: Signer, state: OwnState | None) -> OwnOrigin:
    """Our own origin as the journal kept it, or a new one in epoch 1.

    Raises :class:`JournalError` when entries and head do not add up: the file was changed.
    """
    if state is None:
        return OwnOrigin(origin, signer, epoch=1, clock=StampClock(), elements=OriginSet())
    clock = StampClock(last=state.last_stamp, ceiling=state.ceiling)
    if state.head is None:
        return OwnOrigin(origin, signer, epoch=state.epoch, clock=clock, elements=OriginSet())
    head = decode_head(state.head)
    elements = OriginSet.restored(head.version, head.floor, state.entries)
    if len(elements) != head.count or elements.root() != head.root:
        message = "our own state in the journal does not add up to its head"
        cure = "move the state folder away; the agent then starts over in a new epoch"
        raise JournalError(message, cure=cure, code="journal_corrupt")
    own = OwnOrigin(origin, signer, epoch=state.epoch, clock=clock, elements=elements)
    own.restore_head(head)
    return own


def restore_remotes(states: list[RemoteState], allowed: AllowLists) -> list[RemoteOrigin]:
    """The remote origins the journal kept; what does not add up is pulled again."""
    restored = []
    for state in states:
        networks = allowed.of(state.cluster)
        remote = RemoteOrigin(Origin(state.cluster, state.shard), networks)
        try:
            head, record = decode_head(state.head), decode_record(state.record)
            elements = OriginSet.restored(head.version, head.floor, state.entries)
            good = remote.restore(elements, head, record)
        except ProtocolError:
            good = False
        if not good:
            _log.warning("stored_origin_unusable", origin=state.cluster)
            remote = RemoteOrigin(remote.origin, networks)
        restored.append(remote)
    return restored


def make_planner(config: Config, source: Cluster, others: Others, clock: Clock) -> Planner:
    """What decides what is written of a service, by the target's mode and namespaces."""
    planner: Planner = SlicePlanner()
    if config.target.mode == "mcs":
        planner = MulticlusterPlanner(
            config.cluster, source.local, others.exports, clock.wall_ns, others.member
        )
    namespaces = config.target.namespaces
    return AdmittingPlanner(planner, namespaces.include, namespaces.exclude)
