"""A KubernetesCluster against the scripted API server, on a fake clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from clusters.kubernetes import KubernetesSettings
from clusters.kubernetes.cluster import KubernetesCluster
from clusters.kubernetes.route import Route
from clusters.model import ServiceKey
from clusters.settings import ExportMode, NamespaceFilter
from tests.integration.memory_api import MemoryApi
from tests.integration.scripted_api import Exchange, ScriptedApi, Stream, eventually
from tests.support.clock import FakeClock

CART = ServiceKey("shop", "cart")


class PlainConnection:
    """Plain HTTP with a token that a 401 replaces by the next one."""

    def __init__(self, *tokens: str) -> None:
        self.url = ""
        self.tokens = list(tokens) or ["first"]
        self.renewed = 0
        self.surprise: Exception | None = None

    async def route(self) -> Route:
        if self.surprise is not None:
            surprise, self.surprise = self.surprise, None
            raise surprise
        return Route(self.url, headers={"Authorization": f"Bearer {self.tokens[0]}"})

    async def renew(self, refused: Route) -> Route:
        self.renewed += 1
        if len(self.tokens) > 1:
            self.tokens.pop(0)
        return await self.route()


def cart_slice(
    version: str | None, *addresses: str, name: str = "cart-aa1", **labels: str
) -> dict[str, Any]:
    """A slice of shop/cart as the API server shows it."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "labels": {"kubernetes.io/service-name": "cart", **labels},
    }
    if version is not None:
        metadata["resourceVersion"] = version
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [one], "conditions": {"ready": True}} for one in addresses],
    }


def slice_list(version: str, *items: dict[str, Any], token: str | None = None) -> dict[str, Any]:
    """A page of slices."""
    metadata = {"resourceVersion": version, **({"continue": token} if token else {})}
    return {
        "kind": "EndpointSliceList",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": metadata,
        "items": list(items),
    }


class Bed:
    """Everything of one test; ``api`` hands the test what ``memory`` leaves to it."""

    def __init__(
        self,
        clock: FakeClock,
        memory: MemoryApi,
        api: ScriptedApi,
        connection: PlainConnection,
        cluster: KubernetesCluster,
    ) -> None:
        self.clock = clock
        self.memory = memory
        self.api = api
        self.connection = connection
        self.cluster = cluster
        self.local: list[ServiceKey] = []
        self.owned: list[ServiceKey] = []

    def addresses(self, key: ServiceKey = CART) -> list[str]:
        """Addresses of the service at present."""
        return [endpoint.address for endpoint in self.cluster.local(key).endpoints]

    def counter(self, name: str) -> int:
        return self.cluster.health().counters.get(name, 0)

    def error(self, resource: str = "endpointslices") -> str:
        return self.resource(resource).error or ""

    def resource(self, name: str) -> Any:
        (found,) = (one for one in self.cluster.health().resources if one.name == name)
        return found

    async def listed(self, version: str, *items: dict[str, Any]) -> Exchange:
        """Answer the next request, which must be a list."""
        exchange = await self.api.next()
        assert not exchange.is_watch
        exchange.answer(slice_list(version, *items))
        return exchange

    async def watched(self, version: str, within: float = 5.0) -> Stream:
        """Accept the next request, which must be a watch from ``version``."""
        exchange = await self.api.next(within=within)
        assert exchange.is_watch, exchange.query
        assert exchange.query["resourceVersion"] == version
        return await exchange.stream()

    async def sees(self, *addresses: str) -> None:
        """Wait until the service has exactly these addresses."""
        await eventually(lambda: self.addresses() == list(addresses), f"has {self.addresses()}")


@asynccontextmanager
async def bed_of(
    *scripted: str,
    export: ExportMode = ExportMode.ALL,
    settings: KubernetesSettings | None = None,
    memory: MemoryApi | None = None,
    connection: PlainConnection | None = None,
    run: bool = True,
) -> AsyncIterator[Bed]:
    """A running cluster; the named collections are answered by the test, all others by memory."""
    clock = FakeClock()
    memory = memory or MemoryApi()
    memory.scripted = set(scripted)
    async with ScriptedApi(clock, answerer=memory.answer) as api:
        connection = connection or PlainConnection()
        connection.url = api.url
        cluster = KubernetesCluster(
            cluster="fjord",
            connection=connection,
            export=export,
            namespaces=NamespaceFilter(),
            clock=clock,
            rng=Random(1),
            settings=settings or KubernetesSettings(),
        )
        bed = Bed(clock, memory, api, connection, cluster)
        if not run:
            yield bed
            return
        task = asyncio.create_task(cluster.run(bed.local.append, bed.owned.append))
        try:
            yield bed
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
