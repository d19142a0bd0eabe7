"""Links on real sockets whose peer takes little or nothing."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Self

import pytest
from aiohttp import web

from replicator.transport.base import HIGH_WATER, Link, LinkClosed
from replicator.transport.websocket import (
    Peer,
    WebSocketLink,
    acknowledged,
    frame_bytes,
    tune,
)
from tests.support.certificates import now
from tests.support.network import identity

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: mesa\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


class Plain:
    """A listener without TLS and one raw client, to look at the socket below."""

    def __init__(self, write_seconds: float) -> None:
        self._write_seconds = write_seconds
        self._link: asyncio.Future[WebSocketLink] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        websocket = web.WebSocketResponse(compress=False, autoping=False, timeout=0.5)
        await websocket.prepare(request)
        assert request.transport is not None
        link = WebSocketLink(
            websocket,
            request.transport,
            peer=Peer(identity("fjord"), b"", now(), now()),
            dialled=False,
            max_frame=1 << 20,
            write_seconds=self._write_seconds,
        )
        self._link.set_result(link)
        await self._over.wait()
        await link.close()
        return websocket

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = web.Server(self._handle, access_log=None)
        self._listener = await loop.create_server(self._server, "127.0.0.1", 0)
        self.client = socket.socket()
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        self.client.setblocking(False)  # noqa: FBT003
        await loop.sock_connect(self.client, self._listener.sockets[0].getsockname())
        await loop.sock_sendall(self.client, UPGRADE)
        return self

    async def link(self) -> WebSocketLink:
        async with asyncio.timeout(5):
            return await asyncio.shield(self._link)

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        self.client.close()
        self._listener.close()
        await self._server.shutdown(1.0)


async def flood(link: Link) -> None:
    while True:
        await link.send(b"x" * HIGH_WATER)


async def read_on(client: socket.socket) -> None:
    while await asyncio.get_running_loop().sock_recv(client, 1 << 20):
        pass


async def test_a_peer_that_takes_nothing_loses_the_link_after_the_deadline() -> None:
    async with Plain(write_seconds=0.3) as plain:
        link = await plain.link()
        with pytest.raises(LinkClosed, match="takes nothing"):
            async with asyncio.timeout(10):
                await flood(link)
        with pytest.raises(LinkClosed, match="takes nothing"):
            await link.receive()


async def test_a_slow_peer_keeps_the_link_as_long_as_it_takes_something() -> None:
    """Each wait is longer than the deadline; what counts is progress."""
    async with Plain(write_seconds=0.2) as plain:
        link = await plain.link()
        loop = asyncio.get_running_loop()
        began = loop.time()
        sending = asyncio.create_task(flood(link))
        while loop.time() - began < 1.2:
            done, _ = await asyncio.wait({sending}, timeout=0.02)
            assert not done
            await loop.sock_recv(plain.client, 16 << 10)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending


async def test_closing_does_not_wait_for_a_peer_that_takes_nothing() -> None:
    async with Plain(write_seconds=60) as plain:
        link = await plain.link()
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                await flood(link)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await link.close(1001, "away")
        assert loop.time() - began < 2.5


async def test_a_cancelled_send_does_not_spoil_later_ones() -> None:
    async with Plain(write_seconds=60) as plain:
        link = await plain.link()
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await flood(link)
        reading = asyncio.create_task(read_on(plain.client))
        async with asyncio.timeout(10):
            for _ in range(3):
                await link.send(b"later")
        reading.cancel()


async def test_a_cancelled_close_still_ends_the_link() -> None:
    async with Plain(write_seconds=60) as plain:
        link = await plain.link()
        closing = asyncio.create_task(link.close(1001, "away"))
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(LinkClosed):
            await link.send(b"late")


@pytest.mark.parametrize(
    ("payload", "size"), [(0, 2), (125, 127), (126, 130), (65_535, 65_539), (65_536, 65_546)]
)
def test_sizes_on_the_wire_follow_the_rfc(payload: int, size: int) -> None:
    assert frame_bytes(payload, masked=False) == size
    assert frame_bytes(payload, masked=True) == size + 4


def test_sockets_are_tuned_for_small_frames_and_dead_peers() -> None:
    with socket.socket() as plain:
        tune(plain)
        assert plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000


def test_without_the_systems_word_nothing_is_known_of_what_arrived() -> None:
    class Nothing(asyncio.BaseTransport):
        pass

    assert acknowledged(Nothing()) is None


async def test_addresses_are_readable() -> None:
    async with Plain(write_seconds=1) as plain:
        link = await plain.link()
        host, port = plain.client.getsockname()
        assert link.remote == f"{host}:{port}"
