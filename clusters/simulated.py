"""A generated cluster whose endpoints change all the time; the same seed gives the same history.

For demonstrations, benchmarks and tests.  Changes come one by one at their own times, drawn from
the seed: endpoints appear, go, and change their readiness.  What is written to it is kept in
memory and refused as an API server would.
"""

from __future__ import annotations

import ipaddress
import random
import uuid
from bisect import insort
from collections.abc import Callable
from hashlib import blake2b

from clusters.base import Clock, ClusterHealth, KeySink, ResourceHealth
from clusters.catalog import ServiceCatalog
from clusters.errors import WriteError
from clusters.manifests import reference
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

_NAMES = (
    *("cart", "ledger", "search", "gateway", "stock"),
    *("mail", "media", "quote", "audit", "login"),
)
_NAMESPACES = ("shop", "bank", "core")
_MOST_ENDPOINTS, _MOST_PORTS = 1000, 100
_MOST_AT_ONCE = 200
_EXPORTED = ExportedService()
_PORTS = ((Port("http", 8080),), (Port("grpc", 9090), Port("metrics", 9100)))


def _numeric(endpoint: Endpoint) -> int:
    return int(ipaddress.IPv4Address(endpoint.address))


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
        self._network = self._rng.getrandbits(8)
        self._next_address = 0
        self._keys = [self._key(number) for number in range(services)]
        self._endpoints: dict[ServiceKey, list[Endpoint]] = {
            key: [self._fresh(key) for _ in range(endpoints)] for key in self._keys
        }
        self._size = endpoints
        self.changes_made = 0
        self._written: dict[tuple[str, str], Manifest] = {}
        self._catalog = ServiceCatalog(
            cluster=cluster, export=ExportMode.ALL, namespaces=NamespaceFilter()
        )
        self._owned_sink: KeySink | None = None
        self.refuse: Callable[[SliceChange], WriteError | None] = lambda _: None
        """For tests: what to refuse, and how."""

    @staticmethod
    def _key(number: int) -> ServiceKey:
        name = _NAMES[number % len(_NAMES)]
        suffix = number // len(_NAMES)
        namespace = _NAMESPACES[number % len(_NAMESPACES)]
        return ServiceKey(namespace, f"{name}-{suffix}" if suffix else name)

    def _fresh(self, key: ServiceKey) -> Endpoint:
        number = self._next_address
        self._next_address += 1
        base = (10 << 24) + (self._network << 16)
        address = ipaddress.IPv4Address(base + 0x01 + number % 0xFFFE)
        ports = _PORTS[len(key.name) % len(_PORTS)]
        return Endpoint(str(address), ports, zone="zone-a", node=f"n-{number % 7}", pod=key.name)

    # ---- watching ------------------------------------------------------------------------------

    async def run(self, local: KeySink, owned: KeySink) -> None:
        """See :class:`clusters.base.Cluster`; makes the changes."""
        self._owned_sink = owned
        began = due = self._clock.monotonic()
        behind = 0
        while True:
            over = 0 < self._duration < self._clock.monotonic() - began
            if self._churn <= 0 or not self._keys or over:
                await self._clock.sleep(3600.0)
                continue
            due += self._rng.expovariate(self._churn)
            now = self._clock.monotonic()
            behind += 1
            if due > now or behind >= _MOST_AT_ONCE:
                behind = 0
                await self._clock.sleep(max(0.0, due - now))
                due = max(due, self._clock.monotonic() - _MOST_AT_ONCE / self._churn)
            local(self.step())

    def step(self) -> ServiceKey:
        """Make one change and return the service it touched."""
        key = self._rng.choice(self._keys)
        endpoints = self._endpoints[key]
        self.changes_made += 1
        at = self._rng.randrange(len(endpoints)) if endpoints else 0
        dice = self._rng.random()
        if not endpoints or (dice < 0.25 and len(endpoints) <= self._size):  # noqa: PLR2004
            insort(endpoints, self._fresh(key), key=_numeric)
        elif dice < 0.5 and len(endpoints) > 1:  # noqa: PLR2004
            endpoints.pop(at)
        else:
            old = endpoints[at]
            ready = not old.ready
            endpoints[at] = Endpoint(
                old.address,
                old.ports,
                ready=ready,
                serving=ready,
                zone=old.zone,
                node=old.node,
                pod=old.pod,
            )
        return key

    async def wait_synced(self) -> None:
        """See :class:`clusters.base.Cluster`; always is."""

    async def uid(self) -> str:
        """A uid that depends on the cluster's id alone."""
        digest = blake2b(self._cluster.encode(), digest_size=16).digest()
        return str(uuid.UUID(bytes=digest, version=4))

    # ---- reading -------------------------------------------------------------------------------

    def services(self) -> frozenset[ServiceKey]:
        """See :class:`clusters.base.Cluster`."""
        return frozenset(self._keys)

    def local(self, key: ServiceKey) -> LocalService:
        """See :class:`clusters.base.Cluster`."""
        if key not in self._endpoints:
            return LocalService(key)
        return LocalService(key, tuple(self._endpoints[key]), _EXPORTED)

    def owned_services(self) -> frozenset[ServiceKey]:
        """See :class:`clusters.base.Cluster`."""
        return self._catalog.owned_services()

    def owned(self, key: ServiceKey) -> tuple[Manifest, ...]:
        """See :class:`clusters.base.Cluster`."""
        return self._catalog.owned(key)

    def health(self) -> ClusterHealth:
        """See :class:`clusters.base.Cluster`."""
        counters = {"simulated_changes_total": self.changes_made}
        return ClusterHealth((ResourceHealth("simulated", synced=True),), counters)

    # ---- writing -------------------------------------------------------------------------------

    async def apply(self, change: SliceChange) -> None:
        """See :class:`clusters.base.Cluster`."""
        refusal = self.refuse(change) or self._validate(change)
        if refusal is not None:
            raise refusal
        name = (change.namespace, change.name)
        held = self._written.get(name)
        if change.op is ChangeOp.DELETE:
            if held is None:
                return
            touched = self._catalog.delete(self._written.pop(name))
        else:
            self._written[name] = change.manifest
            touched = self._catalog.upsert(change.manifest)
        for key in sorted(touched.owned):
            if self._owned_sink is not None:
                self._owned_sink(key)

    def _validate(self, change: SliceChange) -> WriteError | None:
        if change.op is ChangeOp.DELETE:
            return None
        named = reference(change.manifest)
        held = self._written.get((change.namespace, change.name))
        manifest = change.manifest
        if held is not None and held.get("addressType") != manifest.get("addressType"):
            return WriteError(f"{named}: addressType is immutable", retryable=False)
        if len(manifest.get("endpoints") or ()) > _MOST_ENDPOINTS:
            return WriteError(f"{named}: more than {_MOST_ENDPOINTS} endpoints", retryable=False)
        if len(manifest.get("ports") or ()) > _MOST_PORTS:
            return WriteError(f"{named}: more than {_MOST_PORTS} ports", retryable=False)
        return None
