"""A generated cluster whose endpoints change all the time; the same seed gives the same history.

For demonstrations, benchmarks and tests.  Changes come one by one at their own times, drawn from
the seed: endpoints appear, go, and change their readiness.  What is written to it is kept in
memory and refused as an API server would; :meth:`SimulatedCluster.put` and
:meth:`SimulatedCluster.remove` stand for its users.
"""

from __future__ import annotations

import random
import uuid
from bisect import insort
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b

from clusters.base import Clock, ClusterHealth, KeySink, ResourceHealth
from clusters.catalog import ServiceCatalog, Touched
from clusters.errors import ManifestError, WriteError
from clusters.manifests import Reference, reference
from clusters.model import (
    ChangeOp,
    Endpoint,
    ExportedService,
    LocalService,
    Manifest,
    Port,
    ServiceKey,
    SliceChange,
)
from clusters.settings import ExportMode, NamespaceFilter
from clusters.slice_names import is_ours

_NAMES = (
    *("cart", "ledger", "search", "gateway", "stock"),
    *("mail", "media", "quote", "audit", "login"),
)
_NAMESPACES = ("shop", "bank", "core")
_MOST_ENDPOINTS, _MOST_PORTS = 1000, 100
_MOST_AT_ONCE = 200
"""Changes without letting others run, and changes made up for after a pause."""
_EXPORTED = ExportedService()
_PORTS = ((Port("http", 8080),), (Port("grpc", 9090), Port("metrics", 9100)))
_ADDRESSES = 1 << 24
_APPEARS, _GOES = 0.25, 0.5
_IDLE_SECONDS = 3600.0


def _ignore(_: ServiceKey) -> None:
    """A sink while nobody listens."""


class SimulatedCluster:
    """Implements :class:`clusters.base.Cluster` from a seed."""

    def __init__(
        self,
        *,
        cluster: str,
        seed: int,
        services: int,
        endpoints: int,
        churn: float,
        duration: float = 0.0,
        clock: Clock,
    ) -> None:
        """``services`` with ``endpoints`` each to begin with, then ``churn`` changes per second.

        Changes end ``duration`` seconds after :meth:`run` began; 0 is for ever.
        """
        self._cluster = cluster
        self._clock = clock
        self._churn = churn
        self._duration = duration
        self._rng = random.Random(f"{seed}/{cluster}")  # noqa: S311 - a simulation
        self._next_address = self._rng.getrandbits(8) << 16
        self._numbers: dict[str, int] = {}
        """Addresses in use, as numbers: the order of endpoints."""
        self._keys = [self._key(number) for number in range(services)]
        self._endpoints: dict[ServiceKey, list[Endpoint]] = {
            key: sorted((self._fresh(key) for _ in range(endpoints)), key=self._numeric)
            for key in self._keys
        }
        self._size = endpoints
        self.changes_made = 0
        self._stored: dict[Reference, Manifest] = {}
        self._versions = 0
        self._catalog = ServiceCatalog(
            cluster=cluster, export=ExportMode.ALL, namespaces=NamespaceFilter()
        )
        self._local_sink: KeySink = _ignore
        self._owned_sink: KeySink = _ignore
        self._last_event = clock.monotonic()
        self.refuse: Callable[[SliceChange], WriteError | None] = lambda _: None
        """For tests: what to refuse, and how."""

    @staticmethod
    def _key(number: int) -> ServiceKey:
        name = _NAMES[number % len(_NAMES)]
        suffix = number // len(_NAMES)
        namespace = _NAMESPACES[number % len(_NAMESPACES)]
        return ServiceKey(namespace, f"{name}-{suffix}" if suffix else name)

    def _fresh(self, key: ServiceKey) -> Endpoint:
        """A new endpoint at an address of 10.0.0.0/8 that nobody has."""
        while True:
            number = self._next_address
            self._next_address = (number + 1) % _ADDRESSES
            address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            if number & 255 not in {0, 255} and address not in self._numbers:
                break
        self._numbers[address] = number
        ports = _PORTS[len(key.name) % len(_PORTS)]
        pod = f"{key.name}-{number:06x}"
        return Endpoint(address, ports, zone="zone-a", node=f"n-{number % 7}", pod=pod)

    def _numeric(self, endpoint: Endpoint) -> int:
        return self._numbers[endpoint.address]

    # ---- watching ------------------------------------------------------------------------------

    async def run(self, local: KeySink, owned: KeySink) -> None:
        """See :class:`clusters.base.Cluster`; makes the changes."""
        self._local_sink, self._owned_sink = local, owned
        if self._churn > 0 and self._keys:
            await self._change_until_over(local)
        while True:
            await self._clock.sleep(_IDLE_SECONDS)

    async def _change_until_over(self, local: KeySink) -> None:
        began = due = self._clock.monotonic()
        at_once = 0
        while True:
            due += self._rng.expovariate(self._churn)
            if 0 < self._duration < due - began:
                return
            now = self._clock.monotonic()
            at_once += 1
            if due > now or at_once >= _MOST_AT_ONCE:
                at_once = 0
                await self._clock.sleep(max(0.0, due - now))
                due = max(due, self._clock.monotonic() - _MOST_AT_ONCE / self._churn)
            local(self.step())

    def step(self) -> ServiceKey:
        """Make one change and return the service it touched."""
        key = self._rng.choice(self._keys)
        endpoints = self._endpoints[key]
        self.changes_made += 1
        self._last_event = self._clock.monotonic()
        at = self._rng.randrange(len(endpoints)) if endpoints else 0
        dice = self._rng.random()
        if not endpoints or (dice < _APPEARS and len(endpoints) <= self._size):
            insort(endpoints, self._fresh(key), key=self._numeric)
        elif dice < _GOES and len(endpoints) > 1:
            del self._numbers[endpoints.pop(at).address]
        else:
            ready = not endpoints[at].ready
            endpoints[at] = replace(endpoints[at], ready=ready, serving=ready)
        return key

    async def wait_synced(self) -> None:
        """See :class:`clusters.base.Cluster`; always is."""

    async def reread(self) -> None:
        """See :class:`clusters.base.Cluster`; nothing here ever lags."""

    async def uid(self) -> str:
        """A uid that depends on the cluster's id alone."""
        digest = blake2b(self._cluster.encode(), digest_size=16).digest()
        return str(uuid.UUID(bytes=digest, version=4))

    # ---- reading -------------------------------------------------------------------------------

    def services(self) -> frozenset[ServiceKey]:
        """See :class:`clusters.base.Cluster`."""
        return frozenset(self._keys) | self._catalog.services()

    def local(self, key: ServiceKey) -> LocalService:
        """See :class:`clusters.base.Cluster`; a generated service is what was generated."""
        if key not in self._endpoints:
            return self._catalog.local(key)
        return LocalService(key, tuple(self._endpoints[key]), _EXPORTED)

    def owned_services(self) -> frozenset[ServiceKey]:
        """See :class:`clusters.base.Cluster`."""
        return self._catalog.owned_services()

    def owned(self, key: ServiceKey) -> tuple[Manifest, ...]:
        """See :class:`clusters.base.Cluster`."""
        return self._catalog.owned(key)

    def stored(self, kind: str) -> list[Manifest]:
        """All objects of a kind, whoever wrote them; generated endpoints have none."""
        return [manifest for named, manifest in self._stored.items() if named.kind == kind]

    def health(self) -> ClusterHealth:
        """See :class:`clusters.base.Cluster`."""
        age = self._clock.monotonic() - self._last_event
        counters = {"simulated_changes_total": self.changes_made}
        return ClusterHealth(
            (ResourceHealth("simulated", synced=True, last_event_age=age),), counters
        )

    # ---- writing -------------------------------------------------------------------------------

    def put(self, manifest: Manifest) -> None:
        """Create or replace an object as a user of the cluster; raises ManifestError."""
        self._store(reference(manifest), manifest)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object as a user of the cluster; one that is gone is no error."""
        self._drop(Reference(kind, namespace, name))

    async def apply(self, change: SliceChange) -> None:
        """See :class:`clusters.base.Cluster`."""
        named = _named(change)
        refusal = self.refuse(change) or self._validate(change, named)
        if refusal is not None:
            raise refusal
        held = self._stored.get(named)
        if change.op is ChangeOp.DELETE:
            if held is not None and is_ours(held) and _is_same(held, change.manifest, "uid"):
                self._drop(named)
        elif change.op is ChangeOp.UPDATE or held is None:
            self._store(named, change.manifest)

    def _store(self, named: Reference, manifest: Manifest) -> None:
        held = self._stored.get(named)
        self._versions += 1
        uid = f"uid-{self._versions}" if held is None else held["metadata"]["uid"]
        metadata = {
            **manifest["metadata"],
            "uid": uid,
            "resourceVersion": str(self._versions),
        }
        stored = {**manifest, "metadata": metadata}
        self._stored[named] = stored
        self._announce(self._catalog.upsert(stored))

    def _drop(self, named: Reference) -> None:
        held = self._stored.pop(named, None)
        if held is not None:
            self._announce(self._catalog.delete(held))

    def _announce(self, touched: Touched) -> None:
        self._last_event = self._clock.monotonic()
        for key in sorted(touched.local):
            self._local_sink(key)
        for key in sorted(touched.owned):
            self._owned_sink(key)

    def _validate(self, change: SliceChange, named: Reference) -> WriteError | None:
        held = self._stored.get(named)
        if change.op is ChangeOp.DELETE:
            return None
        if held is not None and not is_ours(held):
            message = f"{named} exists and is not ours"
            cure = "delete or rename that object"
            return WriteError(message, cure=cure, code="name_taken", retryable=False)
        if change.op is ChangeOp.UPDATE and (
            held is None
            or not _is_same(held, change.manifest, "uid")
            or not _is_same(held, change.manifest, "resourceVersion")
        ):
            message = f"{named} is not what it was when this was planned"
            cure = "it is planned anew by itself"
            return WriteError(message, cure=cure, code="conflict", retryable=True)
        fault = _fault(change.manifest, held)
        if fault is not None:
            return WriteError(f"{named}: {fault}", code="invalid", retryable=False)
        return None


def _named(change: SliceChange) -> Reference:
    try:
        return reference(change.manifest)
    except ManifestError as error:
        raise WriteError(error.message, code="invalid", retryable=False) from error


def _is_same(held: Manifest, wanted: Manifest, name: str) -> bool:
    """Whether a condition on uid or version holds; one that is not stated always does."""
    stated = wanted["metadata"].get(name)
    return stated is None or stated == held["metadata"][name]


def _fault(manifest: Manifest, held: Manifest | None) -> str | None:
    """What an API server would say against an EndpointSlice."""
    if held is not None and held.get("addressType") != manifest.get("addressType"):
        return "addressType is immutable"
    if len(manifest.get("endpoints") or ()) > _MOST_ENDPOINTS:
        return f"more than {_MOST_ENDPOINTS} endpoints"
    if len(manifest.get("ports") or ()) > _MOST_PORTS:
        return f"more than {_MOST_PORTS} ports"
    return None
