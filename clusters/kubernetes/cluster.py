"""A Kubernetes cluster as a :class:`~clusters.base.Cluster`: watches, a catalog, and writes.

One supervised task a collection keeps the catalog in step with the API server; writes go out one
at a time by the importer's choice, within a budget, and are taken into the catalog from their
answers. Objects never pass by here unread: what they mean is the catalog's business, when to ask
the server is the list-watch machine's, what a refusal means is
:mod:`clusters.kubernetes.write_errors`'.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from random import Random
from typing import Self

import structlog

from clusters.base import Clock, ClusterHealth, KeySink, ResourceHealth
from clusters.catalog import ServiceCatalog, Touched
from clusters.errors import ClusterError, ClusterUnavailableError, ManifestError
from clusters.kubernetes.back_off import BackOff
from clusters.kubernetes.client import ApiRefusedError, ApiSession, Connection, WarningLog
from clusters.kubernetes.connection import ApiConnection
from clusters.kubernetes.lease import KubernetesLease
from clusters.kubernetes.list_watch import Listing, ListWatch
from clusters.kubernetes.objects import (
    ENDPOINT_SLICES,
    ENDPOINTS,
    NAMESPACES,
    SERVICE_EXPORTS,
    SERVICE_IMPORTS,
    SERVICES,
    WRITTEN,
    Resource,
    trimmed,
)
from clusters.kubernetes.own_writes import OwnWrites
from clusters.kubernetes.reflector import Reflector
from clusters.kubernetes.settings import KubernetesSettings
from clusters.kubernetes.supervisor import Supervisor
from clusters.kubernetes.watch_decoder import ObjectEvent, Op
from clusters.kubernetes.writer import SliceWriter
from clusters.model import LocalService, Manifest, ServiceKey, SliceChange
from clusters.settings import SYSTEM_NAMESPACE, ExportMode, NamespaceFilter

_ANSWER_BYTES = 16 * 1024 * 1024
_NOT_READY = frozenset({"api_forbidden", "api_unauthorized"})
_log = structlog.get_logger()


def _nothing(_: ServiceKey) -> None:
    """Stand in for a sink while nobody listens."""


class KubernetesCluster:
    """Implements :class:`~clusters.base.Cluster` for one API server."""

    def __init__(  # all by keyword, all without a sensible default
        self,
        *,
        cluster: str,
        connection: Connection,
        export: ExportMode,
        namespaces: NamespaceFilter,
        clock: Clock,
        rng: Random,
        settings: KubernetesSettings,
    ) -> None:
        """``cluster`` is our own id.  Nothing is asked of the API server before :meth:`run`."""
        self._connection = connection
        self._clock = clock
        self._settings = settings
        self._catalog = ServiceCatalog(
            cluster=cluster,
            export=export,
            namespaces=namespaces,
            multicluster=settings.multicluster,
        )
        self._warnings = WarningLog()
        self._own_writes = {kind: OwnWrites() for kind in WRITTEN}
        self._supervisor = Supervisor(clock, deaths=settings.deaths, within=settings.deaths_within)
        self._counters: Counter[str] = Counter()
        self._lists = asyncio.Lock()
        self._synced = asyncio.Event()
        self._moved = asyncio.Event()
        self._local: KeySink = _nothing
        self._owned: KeySink = _nothing
        self._uid: str | None = None
        server = BackOff(settings.watch, rng)
        self._reflectors = tuple(
            self._reflector(resource, server, rng) for resource in _watched(export, settings)
        )
        self._writer = SliceWriter(
            session=self._session,
            catalog=self._catalog,
            own_writes=self._own_writes,
            took_in=self._announce,
            clock=clock,
            settings=settings,
        )

    @classmethod
    async def from_kubeconfig(  # noqa: PLR0913  # as the constructor
        cls,
        path: str | None,
        context: str | None,
        *,
        cluster: str,
        export: ExportMode,
        namespaces: NamespaceFilter,
        clock: Clock,
        rng: Random,
        settings: KubernetesSettings,
        environ: Mapping[str, str],
    ) -> Self:
        """Connect as a kubeconfig says; ``path`` None = as the pod's service account.

        Raises :class:`~clusters.kubernetes.kubeconfig.KubeconfigError` when the configuration is
        unusable; a credential plugin or token that fails now is tried again while running.
        """
        connection = ApiConnection.from_kubeconfig(path, context, clock=clock, environ=environ)
        await connection.check()
        return cls(
            cluster=cluster,
            connection=connection,
            export=export,
            namespaces=namespaces,
            clock=clock,
            rng=rng,
            settings=settings,
        )

    def lease(self, namespace: str, name: str) -> KubernetesLease:
        """The lease that the agents of this cluster share; usable without :meth:`run`."""
        return KubernetesLease(
            partial(self._session, self._settings.lease_seconds),
            namespace=namespace,
            name=name,
            clock=self._clock,
        )

    # ---- Cluster -------------------------------------------------------------------------------

    async def run(self, local: KeySink, owned: KeySink) -> None:
        """See :class:`~clusters.base.Cluster`."""
        self._local, self._owned = local, owned
        try:
            async with asyncio.TaskGroup() as group:
                for reflector in self._reflectors:
                    machine = reflector.machine
                    group.create_task(
                        self._supervisor.keep(
                            machine.resource.name,
                            partial(self._follow, reflector),
                            partial(self._died, machine),
                        ),
                        name=f"watch {machine.resource.name}",
                    )
                group.create_task(self._writer.run())
        finally:
            self._local = self._owned = _nothing

    async def wait_synced(self) -> None:
        """See :class:`~clusters.base.Cluster`."""
        await self._synced.wait()

    async def reread(self) -> None:
        """See :class:`~clusters.base.Cluster`."""
        asked = [(reflector.machine, reflector.reread()) for reflector in self._reflectors]
        while not all(machine.was_read(number) for machine, number in asked):
            await self._moved.wait()

    async def uid(self) -> str:
        """See :class:`~clusters.base.Cluster`."""
        if self._uid is None:
            self._uid = self._catalog.namespace_uid(SYSTEM_NAMESPACE) or await self._read_uid()
        return self._uid

    def services(self) -> frozenset[ServiceKey]:
        """See :class:`~clusters.base.Cluster`."""
        return self._catalog.services()

    def local(self, key: ServiceKey) -> LocalService:
        """See :class:`~clusters.base.Cluster`."""
        return self._catalog.local(key)

    def owned_services(self) -> frozenset[ServiceKey]:
        """See :class:`~clusters.base.Cluster`."""
        return self._catalog.owned_services()

    def owned(self, key: ServiceKey) -> tuple[Manifest, ...]:
        """See :class:`~clusters.base.Cluster`."""
        return self._catalog.owned(key)

    async def apply(self, change: SliceChange) -> None:
        """See :class:`~clusters.base.Cluster`."""
        await self._writer.apply(change)

    def health(self) -> ClusterHealth:
        """See :class:`~clusters.base.Cluster`.

        A collection that we may not read is not synced, although what was read before stays.
        """
        now, failed = self._clock.monotonic(), self.failed_tasks()
        counters = self._counters + Counter(
            {"watch_task_restarts_total": self._supervisor.restarts}
        )
        for reflector in self._reflectors:
            counters.update(reflector.machine.counters)
        return ClusterHealth(
            resources=tuple(_health(one.machine, now, failed) for one in self._reflectors),
            counters=dict(sorted(counters.items())),
        )

    def failed_tasks(self) -> tuple[str, ...]:
        """Watch tasks that died so often that only a new process may help (``/healthz`` 500)."""
        return self._supervisor.failed()

    # ---- watching ------------------------------------------------------------------------------

    def _reflector(self, resource: Resource, server: BackOff, rng: Random) -> Reflector:
        watch = self._settings.watch
        machine = ListWatch(resource, settings=watch, server=server, rng=rng)
        return Reflector(machine, clock=self._clock, settings=watch, lists=self._lists, sink=self)

    def _session(self, seconds: float) -> ApiSession:
        return ApiSession(
            self._connection, self._clock, answer_seconds=seconds, warnings=self._warnings
        )

    async def _follow(self, reflector: Reflector) -> None:
        async with self._session(self._settings.watch.answer_seconds) as session:
            await reflector.run(session)

    def _died(self, machine: ListWatch) -> None:
        machine.died(self._clock.monotonic())

    def listed(self, resource: Resource, listing: Listing) -> bool:
        """See :class:`~clusters.kubernetes.reflector.Sink`."""
        if resource.kind in self._own_writes:
            self._own_writes[resource.kind].listed()
        touched = self._catalog.replace_all(resource.kind, listing.items)
        for error in touched.errors:
            self._bad_object(resource, error)
        self._announce(touched)
        return bool(touched.local or touched.owned or touched.namespaces)

    def happened(self, resource: Resource, event: ObjectEvent) -> None:
        """See :class:`~clusters.kubernetes.reflector.Sink`."""
        now = self._clock.monotonic()
        own_writes = self._own_writes.get(resource.kind)
        if own_writes is not None and own_writes.hides(event, now):
            return
        change = self._catalog.delete if event.op is Op.DELETED else self._catalog.upsert
        try:
            touched = change(trimmed(event.manifest))
        except ManifestError as error:
            self._bad_object(resource, error)
        else:
            self._announce(touched)

    def progressed(self) -> None:
        """See :class:`~clusters.kubernetes.reflector.Sink`."""
        if all(reflector.machine.synced for reflector in self._reflectors):
            self._synced.set()
        self._moved.set()
        self._moved = asyncio.Event()

    def _bad_object(self, resource: Resource, error: ManifestError) -> None:
        self._counters["watch_bad_object_total"] += 1
        _log.warning("watch_bad_object", resource=resource.name, detail=str(error))

    def _announce(self, touched: Touched) -> None:
        """Tell the sinks, and those who waited for a namespace."""
        _tell(self._local, touched.local)
        owned = set(touched.owned)
        for namespace in touched.namespaces:
            owned |= self._writer.waiting_for(namespace)
        _tell(self._owned, owned)

    async def _read_uid(self) -> str:
        path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}"
        try:
            async with self._session(self._settings.watch.answer_seconds) as session:
                namespace = await session.call("GET", path, limit=_ANSWER_BYTES)
            return str(namespace["metadata"]["uid"])
        except ApiRefusedError as error:
            cure = "grant our account the verb get on namespaces"
            raise ClusterUnavailableError(
                f"read namespace kube-system: {error}", cure=cure
            ) from error
        except ClusterUnavailableError:
            raise
        except (ClusterError, LookupError, TypeError) as error:
            raise ClusterUnavailableError(f"read namespace kube-system: {error}") from error


def _watched(export: ExportMode, settings: KubernetesSettings) -> tuple[Resource, ...]:
    chosen = [ENDPOINT_SLICES, SERVICES, NAMESPACES]
    if settings.read_endpoints:
        chosen.append(ENDPOINTS)
    if settings.multicluster or export is ExportMode.SERVICE_EXPORT:
        chosen.append(SERVICE_EXPORTS)
    if settings.multicluster:
        chosen.append(SERVICE_IMPORTS)
    return tuple(chosen)


def _tell(sink: KeySink, keys: Iterable[ServiceKey]) -> None:
    for key in sorted(keys):
        sink(key)


def _health(machine: ListWatch, now: float, failed: tuple[str, ...]) -> ResourceHealth:
    trouble = machine.trouble(now)
    name = machine.resource.name
    error = None if trouble is None else str(trouble)
    if name in failed:
        error = f"watch_task_failed: the task {name} keeps dying; restart the agent"
    return ResourceHealth(
        name=name,
        synced=machine.synced and (trouble is None or trouble.reason not in _NOT_READY),
        last_event_age=machine.last_event_age(now),
        error=error,
    )
