"""``/v1/watch``: live changes, heartbeats, and an end for readers that are too slow."""

from __future__ import annotations

import asyncio
import json
import socket

import aiohttp

from replicator.ops.address import TcpAddress
from replicator.ops.server import OperatorServer
from tests.support.fake_views import FakeViews, change


async def line_of(answer: aiohttp.ClientResponse, start: bytes) -> bytes:
    """The next line that begins with ``start``, without it and its end."""
    while line := await answer.content.readline():
        if line.startswith(start):
            return line[len(start) :].rstrip(b"\n")
    raise EOFError


async def test_a_stream_begins_with_how_to_retry_and_then_carries_changes(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    async with http.get(f"http://{operator.address}/v1/watch") as answer:
        assert answer.content_type == "text/event-stream"
        assert await answer.content.readline() == b"retry: 1000\n"
        for number in range(3):
            views.broadcast.publish(change(address=f"10.0.0.{number}"))
        addresses = [
            json.loads(await line_of(answer, b"data: "))["item"]["address"] for _ in range(3)
        ]
        assert addresses == ["10.0.0.0", "10.0.0.1", "10.0.0.2"]


async def test_silence_is_filled_with_heartbeats(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    async with http.get(f"http://{operator.address}/v1/watch") as answer:
        assert await line_of(answer, b":") == b" beat"
        assert await line_of(answer, b":") == b" beat"
        views.broadcast.publish(change())
        assert json.loads(await line_of(answer, b"data: ")) == change()


async def test_only_what_was_chosen_is_sent(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    path = "/v1/watch?namespace=shop&service=cart&cluster=mesa"
    async with http.get(f"http://{operator.address}{path}") as answer:
        views.broadcast.publish(change(origin="fjord"))
        views.broadcast.publish(change(origin="mesa", service="pay"))
        views.broadcast.publish(change(origin="mesa", namespace="lab"))
        wanted = change(origin="mesa", address="10.9.9.9")
        views.broadcast.publish(wanted)
        assert json.loads(await line_of(answer, b"data: ")) == wanted


async def test_a_reader_that_missed_something_is_told_and_dropped(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    async with http.get(f"http://{operator.address}/v1/watch") as answer:
        await answer.content.readline()
        for _ in range(200):  # In one step of the loop: no reader can keep up.
            views.broadcast.publish(change())
        assert await line_of(answer, b"event: ") == b"dropped"
        told = json.loads(await line_of(answer, b"data: "))
        assert told["code"] == "lagged"
        assert told["cure"]
        assert await answer.content.read() == b"\n"
    assert not views.broadcast.wanted


async def test_a_reader_that_takes_nothing_cannot_hold_memory() -> None:
    views = FakeViews(watch_limit=50)
    server = OperatorServer(views, TcpAddress("127.0.0.1", 0), write_seconds=0.05)
    await server.start()
    assert isinstance(server.address, TcpAddress)
    with socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        stuck.setblocking(False)  # noqa: FBT003
        loop = asyncio.get_running_loop()
        await loop.sock_connect(stuck, (server.address.host, server.address.port))
        await loop.sock_sendall(stuck, b"GET /v1/watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await loop.sock_recv(stuck, 20)
        large = change(hostname="h" * 100_000)
        async with asyncio.timeout(20):
            while views.broadcast.wanted:
                views.broadcast.publish(large)
                await asyncio.sleep(0)
    await server.stop()


async def test_a_reader_that_leaves_is_forgotten(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    async with http.get(f"http://{operator.address}/v1/watch") as answer:
        await answer.content.readline()
        assert views.broadcast.wanted
    async with asyncio.timeout(10):
        while views.broadcast.wanted:  # noqa: ASYNC110 - the product has no event for it
            await asyncio.sleep(0)


async def test_stopping_the_server_ends_the_streams(views: FakeViews) -> None:
    server = OperatorServer(views, TcpAddress("127.0.0.1", 0))
    await server.start()
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://{server.address}/v1/watch") as answer,
    ):
        await answer.content.readline()
        async with asyncio.timeout(1.5):
            await server.stop()
        assert await answer.content.read() == b"\n"


async def test_the_end_of_the_agents_changes_ends_the_stream(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    async with http.get(f"http://{operator.address}/v1/watch") as answer:
        await answer.content.readline()
        views.broadcast.close()
        rest = await answer.content.read()
        assert b"data" not in rest
