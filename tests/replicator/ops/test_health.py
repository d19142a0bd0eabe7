"""The health listener: three read-only paths, reasons in words."""

from __future__ import annotations

import aiohttp
import pytest

from replicator.ops.health import HealthServer
from tests.support.fake_views import FakeViews


async def test_a_good_agent_is_healthy_and_ready(
    health: HealthServer, http: aiohttp.ClientSession
) -> None:
    for path in ("/healthz", "/readyz"):
        async with http.get(f"http://{health.address}{path}") as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")


async def test_not_ready_is_503_and_names_every_reason(
    health: HealthServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    views.reasons_not_ready = ["endpointslices: not listed yet", "peer fjord: never connected"]
    async with http.get(f"http://{health.address}/readyz") as answer:
        assert answer.status == 503
        assert (await answer.text()).splitlines() == views.reasons_not_ready
    async with http.get(f"http://{health.address}/healthz") as answer:
        assert answer.status == 200


async def test_not_healthy_is_500_and_names_the_task(
    health: HealthServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    views.reasons_not_healthy = ["task watch-endpointslices died 3 times in 5 min"]
    async with http.get(f"http://{health.address}/healthz") as answer:
        assert answer.status == 500
        assert "watch-endpointslices" in await answer.text()


async def test_metrics_come_in_the_text_format(
    health: HealthServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    views.numbers.inc("digest_repair")
    async with http.get(f"http://{health.address}/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert "replicator_digest_repair_total 1.0" in await answer.text()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/v1/status"])
async def test_anything_but_reading_is_405(
    health: HealthServer, http: aiohttp.ClientSession, method: str, path: str
) -> None:
    async with http.request(method, f"http://{health.address}{path}") as answer:
        assert answer.status == 405
        assert answer.headers["Allow"] == "GET,HEAD"


async def test_other_paths_are_404_so_nothing_else_leaks(
    health: HealthServer, http: aiohttp.ClientSession
) -> None:
    async with http.get(f"http://{health.address}/v1/status") as answer:
        assert answer.status == 404
    async with http.head(f"http://{health.address}/readyz") as answer:
        assert answer.status == 200
