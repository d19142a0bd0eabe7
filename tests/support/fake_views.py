"""An agent's views without an agent: documents to be changed at will, and a real broadcast."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable
from typing import Any, Self

from clusters.model import ServiceKey
from replicator.ops.address import Address, TcpAddress
from replicator.ops.broadcast import Broadcast, Subscription
from replicator.ops.metrics import Metrics
from replicator.ops.server import OperatorServer
from replicator.policies import Setting, Subject, described

Json = dict[str, Any]


def item(address: str = "10.20.1.4", **changes: Any) -> Json:
    """One ITEM of fjord's shop/cart."""
    return {
        "kind": "endpoint",
        "tag": "fjord:1764655200000000000",
        "namespace": "shop",
        "service": "cart",
        "address": address,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP", "app_protocol": None}],
        "ready": True,
        "serving": True,
        "terminating": False,
        "hostname": None,
        "zone": "fjord-a",
        "node": "worker-1",
        "pod": "cart-7d9f",
    } | changes


def change(op: str = "add", origin: str = "fjord", **item_changes: Any) -> Json:
    """One event of ``/v1/watch``."""
    return {
        "op": op,
        "item": item(**item_changes),
        "origin": origin,
        "committed_at": "2025-12-02T06:00:00.120Z",
        "convergence_ms": 81.25,
    }


def peer(cluster: str, **changes: Any) -> Json:
    """A connected PEER in good order."""
    return {
        "cluster": cluster,
        "url": f"https://{cluster}.mesh.example:7443",
        "state": "connected",
        "dialled": True,
        "instance": f"{cluster}-1",
        "connected_seconds": 3725.0,
        "rtt_ms": 81.4,
        "clock_offset_ms": -0.35,
        "last_beat_age_seconds": 0.4,
        "digest_equal": True,
        "last_error": None,
        "bytes_sent": 10240,
        "bytes_received": 300,
        "software": "0.1.0",
    } | changes


def cluster(name: str, **changes: Any) -> Json:
    """A fresh CLUSTER."""
    return {
        "cluster": name,
        "shard": 0,
        "region": f"region-of-{name}",
        "self": False,
        "state": "fresh",
        "elements": 1200,
        "tombstones": 7,
        "addresses_hidden": 0,
        "services": 40,
        "head": {
            "epoch": "1",
            "stamp": f"{name}:1764655200000000000",
            "floor": "0",
            "count": 1207,
            "root": "ab" * 32,
            "issued_at": "1764655200000000000",
        },
        "head_age_seconds": 2.4,
        "policy": "keep",
        "staleness_seconds": 0.2,
        "via": name,
        "convergence_ms": {"p50": 82.5, "p99": 104.0, "max": 250.0, "count": 900},
        "clock_offset_ms": -0.35,
    } | changes


def side(kind: str, **changes: Any) -> Json:
    """A SOURCE in good order."""
    resource = {
        "name": "endpointslices",
        "synced": True,
        "last_event_age_seconds": 3.5,
        "error": None,
    }
    return {"kind": kind, "synced": True, "resources": [resource], "counters": {}} | changes


def good_status() -> Json:
    """The status of mesa: fjord and tundra connected, everything fresh."""
    return {
        "agent": {
            "cluster": "mesa",
            "clusterset": "prod",
            "region": "us-east-1",
            "instance": "3f2a",
            "version": "0.1.0",
            "epoch": "1",
            "started_at": "2025-12-02T05:00:00.000Z",
            "ready": True,
            "reasons": [],
        },
        "converged": True,
        "digest": "cd" * 32,
        "clusters": [
            cluster("fjord"),
            cluster("mesa", self=True, via=None, convergence_ms=None, clock_offset_ms=None),
            cluster("tundra"),
        ],
        "peers": [peer("fjord"), peer("tundra")],
        "source": side("kubernetes"),
        "target": side("endpointslices"),
        "problems": [],
    }


class FakeViews:
    """Implements :class:`replicator.ops.views.AgentViews` from what a test puts into it."""

    def __init__(self, *, watch_limit: int = 64) -> None:
        """A good agent without services; a watcher may fall ``watch_limit`` changes behind."""
        self.status_document = good_status()
        self.service_rows: list[Json] = []
        self.items: list[Json] = []
        self.snapshot_document: Json = {}
        self.config_document: Json = {"cluster": "mesa"}
        self.broadcast: Broadcast[Json] = Broadcast(limit=watch_limit)
        self.reasons_not_ready: list[str] = []
        self.reasons_not_healthy: list[str] = []
        self.numbers = Metrics("mesa", ("fjord", "tundra"))
        self.failure: Exception | None = None
        self.asked: list[tuple[str | None, str | None, str | None]] = []
        self.decisions: list[tuple[str, str]] = []
        self.policy_rows: list[Json] = []
        self.steered: list[tuple[Subject, Setting]] = []
        self.releases: list[tuple[str | None, ServiceKey | None]] = []

    def status(self) -> Json:
        """The scripted document, or the scripted failure."""
        if self.failure is not None:
            raise self.failure
        return copy.deepcopy(self.status_document)

    def peers(self) -> list[Json]:
        """Those of the status."""
        return list(self.status()["peers"])

    def clusters(self) -> list[Json]:
        """Those of the status."""
        return list(self.status()["clusters"])

    def services(self) -> list[Json]:
        """As scripted."""
        return copy.deepcopy(self.service_rows)

    def endpoints(
        self, namespace: str | None, service: str | None, cluster: str | None
    ) -> list[Json]:
        """The scripted items that are asked for."""
        self.asked.append((namespace, service, cluster))
        return [
            copy.deepcopy(row)
            for row in self.items
            if namespace in {None, row["namespace"]}
            and service in {None, row["service"]}
            and cluster in {None, row["tag"].partition(":")[0]}
        ]

    def snapshot(self) -> Json:
        """As scripted."""
        return copy.deepcopy(self.snapshot_document)

    async def decide(self, decision: str, cluster: str) -> Json:
        """Two elements of one service, or the scripted failure."""
        self.decisions.append((decision, cluster))
        if self.failure is not None:
            raise self.failure
        return {"cluster": cluster, "decision": decision, "elements": 2, "services": 1}

    def policies(self) -> list[Json]:
        """As scripted."""
        return copy.deepcopy(self.policy_rows)

    async def steer(self, subject: Subject, setting: Setting) -> Json:
        """Of two services one keeps its last ready endpoints; or the scripted failure."""
        self.steered.append((subject, setting))
        if self.failure is not None:
            raise self.failure
        counts = {"changed": True, "services": 2, "kept": 1}
        return {**described(subject), "setting": setting, **counts}

    def release(self, cluster: str | None, key: ServiceKey | None) -> list[Json]:
        """One of the cluster asked for, or of mesa; of tundra nothing is held back."""
        self.releases.append((cluster, key))
        if cluster == "tundra":
            return []
        service = "shop/cart" if key is None else str(key)
        counts = {"removed": 6, "written": 8}
        return [{"service": service, "cluster": cluster or "mesa", **counts}]

    def config(self) -> Json:
        """As scripted."""
        return copy.deepcopy(self.config_document)

    def subscribe(self) -> Subscription[Json]:
        """A place in :attr:`broadcast`."""
        return self.broadcast.subscribe()

    def ready(self) -> tuple[bool, list[str]]:
        """Ready unless reasons were given."""
        return not self.reasons_not_ready, list(self.reasons_not_ready)

    def healthy(self) -> tuple[bool, list[str]]:
        """Healthy unless reasons were given."""
        return not self.reasons_not_healthy, list(self.reasons_not_healthy)

    def metrics(self) -> bytes:
        """Of :attr:`numbers`."""
        return self.numbers.exposition()


class ServedViews:
    """Scripted views behind a real operator API in a thread of its own, for commands that block."""

    def __init__(self, views: FakeViews, address: Address | None = None) -> None:
        """Serve ``views`` on ``address``, or on a free port of this machine."""
        self.views = views
        self._wanted = address or TcpAddress("127.0.0.1", 0)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: OperatorServer | None = None

    async def _start(self) -> OperatorServer:
        server = OperatorServer(self.views, self._wanted)
        await server.start()
        return server

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def address(self) -> str:
        """What to give to ``--agent``."""
        assert self._server is not None
        return str(self._server.address)

    def stop(self) -> None:
        """Stop listening and end the watches."""
        if self._server is not None:
            asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(10)

    def when_watched(self, deed: Callable[[], object]) -> None:
        """Do ``deed`` in the server's thread as soon as somebody watches."""
        asyncio.run_coroutine_threadsafe(self._when_watched(deed), self._loop)

    def publish_when_watched(self, *changes: Json) -> None:
        """Publish ``changes`` as soon as somebody watches."""
        self.when_watched(lambda: [self.views.broadcast.publish(change) for change in changes])

    async def _when_watched(self, deed: Callable[[], object]) -> None:
        while not self.views.broadcast.wanted:  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0.001)
        deed()
