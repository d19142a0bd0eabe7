"""Whatever happens to watches and lists, the catalog ends up showing what the API server holds."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from clusters.errors import ClusterUnavailableError, NamespaceUnavailableError, WriteError
from clusters.kubernetes import KubernetesSettings, WatchSettings
from clusters.model import Endpoint, Port, ServiceKey
from clusters.slices import SliceSettings, plan
from tests.integration.kubernetes_bed import Bed, bed_of, cart_slice
from tests.integration.scripted_api import Exchange, eventually

STEPS = 120
WRITE_ERRORS = (ClusterUnavailableError, NamespaceUnavailableError, WriteError)
PAY = ServiceKey("shop", "pay")


class Trouble:
    """Refuses or drops some requests while it lasts."""

    def __init__(self, bed: Bed, rng: Random) -> None:
        self.lasting = True
        self._rng = rng
        self._answer = bed.memory.answer
        bed.api.answerer = self.answer

    def answer(self, exchange: Exchange) -> bool:
        chance = self._rng.random() if self.lasting else 1.0
        if chance < 0.04:
            exchange.drop()
        elif chance < 0.08:
            exchange.refuse(429, "TooManyRequests", retryAfterSeconds=1)
        elif chance < 0.12:
            exchange.refuse(500, "InternalError", "etcdserver: leader changed")
        elif chance < 0.15:
            exchange.refuse(410, "Expired", "too old")
        elif chance < 0.17:
            exchange.answer_bytes(b'{"kind": "EndpointSliceList", "items": [')
        else:
            return self._answer(exchange)
        return True


def change_something(bed: Bed, rng: Random) -> None:
    """Somebody else changes slices, or the server loses patience."""
    memory = bed.memory
    name = f"cart-{rng.randrange(6)}"
    present = ("shop", name) in memory.objects["endpointslices"]
    match rng.randrange(12):
        case 0 | 1 | 2 | 3 | 4:
            addresses = {f"10.20.1.{rng.randrange(1, 30)}" for _ in range(rng.randrange(4))}
            memory.put("endpointslices", cart_slice(None, *sorted(addresses), name=name))
        case 5 | 6 if present:
            memory.remove("endpointslices", "shop", name)
        case 7:
            memory.compact()
        case 8:
            memory.end_watches()
        case 9:
            memory.cut_watches()
        case 10:
            memory.bookmark()
        case _:
            pass


def held(bed: Bed) -> list[str]:
    """Addresses of shop/cart on the server."""
    found: set[str] = set()
    for one in bed.memory.objects["endpointslices"].values():
        if one["metadata"]["labels"].get("kubernetes.io/service-name") == "cart":
            found |= {endpoint["addresses"][0] for endpoint in one["endpoints"]}
    return sorted(found)


async def write(bed: Bed, *addresses: str) -> None:
    view = {"mesa": [Endpoint(one, (Port("http", 8080),)) for one in addresses]}
    observed = bed.cluster.owned(PAY)
    settings = SliceSettings()
    for change in plan(PAY, view, observed, settings=settings, deletable=lambda _: True):
        await bed.cluster.apply(change)


def written(bed: Bed) -> list[dict[str, Any]]:
    return [
        one
        for one in bed.memory.objects["endpointslices"].values()
        if "pay" in one["metadata"]["labels"].values()
    ]


@pytest.mark.parametrize("seed", range(8))
async def test_the_end_is_what_the_server_holds(seed: int) -> None:
    rng = Random(seed)
    settings = KubernetesSettings(watch=WatchSettings(page_items=2))
    async with bed_of(settings=settings) as bed:
        await bed.cluster.wait_synced()
        trouble = Trouble(bed, rng)
        wanted = "10.9.0.1"
        writes: list[asyncio.Task[None]] = []
        for _ in range(STEPS):
            change_something(bed, rng)
            if rng.random() < 0.2:
                wanted = f"10.9.0.{rng.randrange(1, 200)}"
                writes.append(asyncio.create_task(write(bed, wanted)))
            await bed.api.time_passes(rng.choice((0.1, 0.3, 2.0)))
        trouble.lasting = False
        await bed.api.time_passes(130)

        for error in await asyncio.gather(*writes, return_exceptions=True):
            assert error is None or isinstance(error, WRITE_ERRORS), error
        await eventually(lambda: sorted(bed.addresses()) == held(bed))
        await write(bed, wanted)
        (slice_of_ours,) = written(bed)
        assert [one["addresses"] for one in slice_of_ours["endpoints"]] == [[wanted]]
        before = len(bed.memory.writes)
        await bed.api.time_passes(1)
        await write(bed, wanted)
        assert len(bed.memory.writes) == before
        assert bed.cluster.health().synced
        assert bed.counter("watch_task_restarts_total") == 0
