"""(f) A change in one frame, plain and packed: bytes, and CPU to write and read it.

``python -m bench --only f``.  The production exporter's elements, a real owner with a real Ed25519
signature, no network: a frame is a Transfer with its signed head, as a peer gets it.

- ``random``: changes all over 1,000 services of 20 endpoints.
- ``rolling``: one service whose endpoints are replaced by their successors in the address range.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import count
from statistics import mean
from time import process_time
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.crdt import FIRST_STAMP
from clusters.model import Endpoint, ExportedService, LocalService, Port, ServiceKey
from clusters.simulated import SimulatedCluster
from crdt import Origin, OriginSet, StampClock
from replicator.codec import decode, encode, encode_packed
from replicator.messages import Transfer
from replicator.own_origin import OwnOrigin
from replicator.projection import Projector
from replicator.signing import CertificateSigner
from replicator.system_clock import SystemClock

_CLUSTER = "us-east-1"
_SERVICES, _ENDPOINTS = 1000, 20
_SIZES = (1, 100, 1000)
_BATCHES = {1: 40, 100: 20, 1000: 5}
BETWEEN_NS = {"random": 100_000, "rolling": 5_000_000}
"""Mean time between two changes: 10,000 a second all over, 200 a second in one deployment."""
_TURNS = 7

Steps = Iterator[LocalService]


class Owner:
    """An origin that publishes a head every so many changes."""

    def __init__(self, seed: int) -> None:
        key = Ed25519PrivateKey.from_private_bytes(random.Random(seed).randbytes(32))
        signer = CertificateSigner(key, (b"leaf",))
        self._own = OwnOrigin(
            Origin(_CLUSTER), signer, epoch=1, clock=StampClock(), elements=OriginSet()
        )
        self._projector = Projector(_CLUSTER)
        self._dice = random.Random(seed)
        self._wall_ns = FIRST_STAMP

    def batch(self, steps: Steps, size: int, between_ns: int) -> Transfer:
        """The transfer of the next ``size`` changes."""
        changed = 0
        start = self._own.elements.version.stamp
        for service in steps:
            self._wall_ns += round(self._dice.expovariate(1 / between_ns))
            stated = self._projector.elements_of(service)
            changed += self._own.state(service.key, stated, self._wall_ns)
            if changed >= size:
                break
        sealed = self._own.seal(self._wall_ns)
        self._own.published()
        to = sealed.head.stamp
        return Transfer(sealed.head.origin, 1, start == 0, start, to, sealed.entries, sealed.head)


def all_over(seed: int) -> tuple[list[LocalService], Steps]:
    """A cluster to begin with, then one change after the other in any of its services."""
    cluster = SimulatedCluster(
        cluster=_CLUSTER,
        seed=seed,
        services=_SERVICES,
        endpoints=_ENDPOINTS,
        churn=0.0,
        clock=SystemClock(),
    )
    first = [cluster.local(key) for key in sorted(cluster.services())]
    return first, (cluster.local(cluster.step()) for _ in count())


def deployment(seed: int) -> tuple[list[LocalService], Steps]:
    """A service of 100, then each endpoint in turn replaced by the next address."""
    key, first = ServiceKey("shop", "checkout"), random.Random(seed).randrange(1 << 22)

    def at(number: int) -> LocalService:
        endpoints = tuple(
            Endpoint(
                f"10.{which >> 16 & 255}.{which >> 8 & 255}.{which & 255}",
                (Port("http", 8080),),
                zone=f"us-east-1{'abc'[which % 3]}",
                node=f"node-{which % 7}",
                pod=f"checkout-{which:06x}",
            )
            for which in range(first + number, first + number + 100)
        )
        return LocalService(key, endpoints, ExportedService())

    return [at(0)], map(at, count(1))


def _cpu_us(work: Callable[[], object], entries: int) -> float:
    """Least CPU microseconds an entry of several turns."""
    repeats = max(1, 2000 // entries)
    spent = []
    for _ in range(_TURNS):
        began = process_time()
        for _ in range(repeats):
            work()
        spent.append((process_time() - began) / repeats / entries * 1e6)
    return round(min(spent), 3)


def _measured(transfers: list[Transfer]) -> dict[str, Any]:
    forms: dict[str, Callable[[Transfer], bytes]] = {"plain": encode, "packed": encode_packed}
    found: dict[str, Any] = {"changes": [len(one.entries) for one in transfers]}
    one, changes = transfers[0], sum(found["changes"])
    for name, form in forms.items():
        frames = [form(transfer) for transfer in transfers]
        if [decode(frame) for frame in frames] != transfers:
            message = f"{name} frames do not read back"
            raise RuntimeError(message)
        sizes = list(map(len, frames))
        found[name] = {
            "frame_bytes": sizes,
            "bytes_per_frame": round(mean(sizes), 1),
            "bytes_per_change": round(sum(sizes) / changes, 2),
            "write_us_per_change": _cpu_us(lambda f=form: f(one), len(one.entries)),  # type: ignore[misc]
            "read_us_per_change": _cpu_us(lambda f=frames[0]: decode(f), len(one.entries)),  # type: ignore[misc]
        }
    return found


def measure(seed: int) -> dict[str, Any]:
    """By kind of change and batch size."""
    results: dict[str, Any] = {}
    for name, source in (("random", all_over), ("rolling", deployment)):
        for size in _SIZES:
            first, steps = source(seed)
            owner, between = Owner(seed), BETWEEN_NS[name]
            owner.batch(iter(first), 1 << 40, 1000)
            batches = [owner.batch(steps, size, between) for _ in range(_BATCHES[size])]
            results.setdefault(name, {})[f"of_{size}"] = _measured(batches)
    return results
