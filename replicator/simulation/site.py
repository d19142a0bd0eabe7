"""One simulated region without its agent: its cluster and its clocks.

What a cluster holds, and what its clocks show, survives every crash of an agent; two agents of one
cluster see the same.
"""

from __future__ import annotations

import random
from functools import cached_property

from clusters.model import Endpoint, ExportedService, LocalService, Port, ServiceKey
from clusters.simulated import SimulatedCluster
from replicator.simulation.plan import ADDRESS_BITS, READY_BIT, Plan
from replicator.simulation.versions import Release

WALL_NS = 1_764_655_200_000_000_000
"""The wall clock of the start, Unix nanoseconds."""
BULK = ServiceKey("steps", "bulk")
_EXPORTED = ExportedService()
_PORTS = (Port("http", 8080),)


class _Still:
    """The clock of a generated cluster whose changes the world makes."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Virtual seconds."""
        return self.now

    def wall_ns(self) -> int:
        """Never asked for."""
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        """Never asked for."""
        raise NotImplementedError


class Site:
    """A region's cluster and clocks."""

    def __init__(self, name: str, plan: Plan) -> None:
        """As the plan begins."""
        self.name = name
        self.base = float(1000 * (plan.regions.index(name) + 1))
        """Monotonic clocks of two machines have nothing to do with each other."""
        self._seed = f"{plan.seed}/site/{name}"
        self._right_ns = random.Random(self._seed).randrange(-(10**9), 10**9)  # noqa: S311
        self._offset_ns = self._right_ns
        self._ppm = 0
        self._since = 0.0
        self._services: dict[ServiceKey, LocalService] = {}
        self._made: SimulatedCluster | None = None
        self.release = Release(1 + (name in plan.newer) - (name in plan.older))
        """What its agents run, from their next start on."""
        if plan.churn > 0:
            self._made = SimulatedCluster(
                cluster=name,
                seed=plan.seed,
                services=plan.services,
                endpoints=plan.endpoints,
                churn=plan.churn,
                clock=_Still(),
            )

    @cached_property
    def rng(self) -> random.Random:
        """What the times of this cluster's changes are drawn from."""
        return random.Random(self._seed)  # noqa: S311 - a simulation

    # ---- clocks --------------------------------------------------------------------------------

    def monotonic(self, now: float) -> float:
        """The monotonic clock at virtual time ``now``."""
        return self.base + now

    def wall_ns(self, now: float) -> int:
        """The wall clock at virtual time ``now``."""
        drifted = round((now - self._since) * 1e3 * self._ppm)
        return WALL_NS + round(now * 1e9) + self._offset_ns + drifted

    def jump(self, nanoseconds: int) -> None:
        """Set the wall clock."""
        self._offset_ns += nanoseconds

    def drift(self, now: float, ppm: int) -> None:
        """Let the wall clock run fast by ``ppm`` from now on."""
        self._offset_ns += round((now - self._since) * 1e3 * self._ppm)
        self._since, self._ppm = now, ppm

    def set_right(self, now: float) -> None:
        """Undo all jumps and drifts."""
        self._offset_ns, self._since, self._ppm = self._right_ns, now, 0

    # ---- the cluster ---------------------------------------------------------------------------

    def set(self, service: str, amount: int) -> ServiceKey:
        """Give a service the endpoints and readiness that the bits of ``amount`` name."""
        ready = bool(amount & READY_BIT)
        numbers = [bit for bit in range(ADDRESS_BITS) if amount >> bit & 1]
        return self._put(ServiceKey("steps", service), numbers, ready=ready)

    def bulk(self, amount: int) -> ServiceKey:
        """Give one service so many endpoints."""
        return self._put(BULK, range(amount), ready=True)

    def _put(self, key: ServiceKey, numbers: range | list[int], *, ready: bool) -> ServiceKey:
        held = self._services.get(key)
        known = {} if held is None else {e.address: e for e in held.endpoints}
        endpoints = []
        for number in numbers:
            address = f"10.0.0.{number + 1}"
            same = known.get(address)
            if same is None or same.ready is not ready:
                same = Endpoint(address, _PORTS, ready=ready, serving=ready)
            endpoints.append(same)
        self._services[key] = LocalService(key, tuple(endpoints), _EXPORTED)
        return key

    def churn(self) -> ServiceKey:
        """Make one generated change; only with churn in the plan."""
        assert self._made is not None  # noqa: S101 - the world asks only then
        return self._made.step()

    def keys(self) -> frozenset[ServiceKey]:
        """All services."""
        made = frozenset[ServiceKey]() if self._made is None else self._made.services()
        return made | self._services.keys()

    def local(self, key: ServiceKey) -> LocalService:
        """One service as it is now."""
        found = self._services.get(key)
        if found is not None:
            return found
        if self._made is not None:
            return self._made.local(key)
        return LocalService(key, (), None)
