"""Servers on addresses of this machine, each with scripted views."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from replicator.ops.address import TcpAddress
from replicator.ops.health import HealthServer
from replicator.ops.server import OperatorServer
from tests.support.fake_views import FakeViews

LOOPBACK = TcpAddress("127.0.0.1", 0)


@pytest.fixture
def views() -> FakeViews:
    return FakeViews()


@pytest.fixture
async def operator(views: FakeViews) -> AsyncIterator[OperatorServer]:
    server = OperatorServer(views, LOOPBACK, heartbeat_seconds=0.02)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def health(views: FakeViews) -> AsyncIterator[HealthServer]:
    server = HealthServer(views, LOOPBACK)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        yield session
