"""A link over an aiohttp WebSocket, the same for the side that dialled and the side that listened.

Back-pressure is the transport's: :meth:`WebSocketLink.send` returns when less than ``HIGH_WATER``
bytes wait.  A peer that takes nothing loses the link by a deadline on progress, measured by what
its kernel acknowledged, so a slow line is not mistaken for a dead one.  Pings are not answered: the
protocol above has beats of its own.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

import aiohttp
from aiohttp import web

from replicator.identity import PeerIdentity
from replicator.transport.base import HIGH_WATER, NORMAL, ONLY_BINARY, TOO_BIG, LinkClosed

WRITE_SECONDS = 10.0
CLOSE_SECONDS = 2.0
_LOW_WATER = HIGH_WATER // 4
"""Below this the transport never waits: it is asyncio's mark for going on after ``HIGH_WATER``."""
_REASON_LIMIT = 123
_NO_CODE = 1005
"""Stands for a close frame without a code (RFC 6455, section 7.1.5)."""
_INFO = struct.Struct("=120xQ")
"""``struct tcp_info`` of Linux up to ``tcpi_bytes_acked``."""

WebSocket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


def acknowledged(transport: asyncio.BaseTransport) -> int | None:
    """Bytes the peer's kernel has acknowledged; None where the system does not tell."""
    connection = transport.get_extra_info("socket")
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
        count: int = _INFO.unpack(info)[0]
    except (AttributeError, OSError, struct.error):
        return None
    return count or None


def tune(connection: socket.socket) -> None:
    """No delay for small frames, and an end to connections whose peer acknowledges nothing."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    limit = int(WRITE_SECONDS * 1000)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit)


def frame_bytes(payload: int, *, masked: bool) -> int:
    """Size on the wire of one frame (RFC 6455, section 5.2)."""
    header = 2 if payload <= 125 else 4 if payload <= 0xFFFF else 10  # noqa: PLR2004 - the RFC's
    return payload + header + (4 if masked else 0)


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end."""

    identity: PeerIdentity
    certificate: bytes
    """DER."""
    expires_at: datetime
    """When the certificate is over."""
    own_expires_at: datetime
    """When the chain that we showed is."""


class WebSocketLink:
    """:class:`~replicator.transport.base.Link` over an open WebSocket."""

    def __init__(
        self,
        websocket: WebSocket,
        transport: asyncio.Transport,
        *,
        peer: Peer,
        dialled: bool,
        max_frame: int,
        write_seconds: float = WRITE_SECONDS,
        release: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``release`` frees what belongs to the link, once it is closed."""
        self.identity = peer.identity
        self.peer_certificate = peer.certificate
        self.peer_expires_ns: int | None = _nanoseconds(peer.expires_at)
        self.own_expires_ns: int | None = _nanoseconds(peer.own_expires_at)
        self.dialled = dialled
        self.remote = _address(transport)
        self.bytes_sent = 0
        self.bytes_received = 0
        self._websocket = websocket
        self._transport = transport
        self._socket = transport.get_extra_info("socket")
        self._max_frame = max_frame
        self._write_seconds = write_seconds
        self._release = release
        self._end: LinkClosed | None = None
        self._closed = False
        self._pushes: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        transport.set_write_buffer_limits(high=HIGH_WATER, low=_LOW_WATER)
        # Only for its drain(): reading and writing are the WebSocket's.
        reader = asyncio.StreamReader(loop=self._loop)
        protocol = transport.get_protocol()
        self._flow = asyncio.StreamWriter(transport, protocol, reader, self._loop)

    async def send(self, frame: bytes) -> None:
        """See :class:`~replicator.transport.base.Link`."""
        if len(frame) > self._max_frame:
            message = f"a frame of {len(frame)} bytes is above the limit of {self._max_frame}"
            raise ValueError(message)
        if self._end is not None:
            raise self._end
        if self._transport.is_closing():
            raise self._broken("")
        try:
            if self._transport.get_write_buffer_size() + len(frame) <= _LOW_WATER:
                await self._websocket.send_bytes(frame)
            else:
                with self._deadline():
                    await asyncio.shield(self._start_push(frame))
        except (OSError, aiohttp.ClientError) as error:
            raise self._broken(str(error)) from error
        if self._transport.is_closing():
            raise self._broken("")
        self.bytes_sent += frame_bytes(len(frame), masked=self.dialled)

    def _start_push(self, frame: bytes) -> asyncio.Task[None]:
        """Send and wait for room in a task of its own, since the wait must not be cancelled.

        All who wait for room in aiohttp share one future: cancelling one wait cancels the others.
        """
        task = self._loop.create_task(self._push(frame))
        self._pushes.add(task)
        task.add_done_callback(self._pushed)
        return task

    async def _push(self, frame: bytes) -> None:
        await self._websocket.send_bytes(frame)
        await self._flow.drain()

    def _pushed(self, task: asyncio.Task[None]) -> None:
        self._pushes.discard(task)
        if not task.cancelled():
            task.exception()  # seen by the sender, if it still waits

    async def receive(self) -> bytes:
        """See :class:`~replicator.transport.base.Link`."""
        while self._end is None:
            message = await self._websocket.receive()
            kind = message.type
            if kind is aiohttp.WSMsgType.BINARY:
                frame: bytes = message.data
                if len(frame) > self._max_frame:
                    await self.close(TOO_BIG, "frame above the limit")
                    break
                self.bytes_received += frame_bytes(len(frame), masked=not self.dialled)
                return frame
            if kind is aiohttp.WSMsgType.TEXT:
                await self.close(ONLY_BINARY, "binary frames only")
            elif kind not in {aiohttp.WSMsgType.PING, aiohttp.WSMsgType.PONG}:
                self._ended(message)
        raise self._end or LinkClosed(None, "")

    def _ended(self, message: aiohttp.WSMessage) -> None:
        """Remember why the WebSocket is over, unless we closed it ourselves."""
        if message.type is aiohttp.WSMsgType.CLOSE:
            self._end = self._end or LinkClosed(message.data or _NO_CODE, message.extra or "")
        elif isinstance(message.data, aiohttp.WebSocketError):
            self._end = self._end or LinkClosed(message.data.code, str(message.data))
        else:
            self._broken("" if message.data is None else str(message.data))

    def _broken(self, detail: str) -> LinkClosed:
        self._end = self._end or LinkClosed(None, detail or "the peer is gone")
        return self._end

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """See :class:`~replicator.transport.base.Link`."""
        if self._closed:
            return
        self._closed = True
        self._end = self._end or LinkClosed(code, reason)
        text = reason.encode()[:_REASON_LIMIT].decode(errors="ignore").encode()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._websocket.close(code=code, message=text)
                self._transport.close()
        except (TimeoutError, OSError, aiohttp.ClientError):
            self._cut()
        except asyncio.CancelledError:
            self._cut()
            raise
        finally:
            if self._release is not None:
                await self._release()

    def abort(self, reason: str) -> None:
        """End the link at once, without a word to the peer."""
        self._broken(reason)
        self._cut()

    def _cut(self) -> None:
        """Abort the transport; on Python 3.11 one of TLS that was closed twice cannot be."""
        try:
            self._transport.abort()
        except AttributeError:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def _deadline(self) -> Iterator[None]:
        """Abort the link while inside if the peer takes nothing for the time allowed."""
        timer: asyncio.TimerHandle

        def look(before: int) -> None:
            nonlocal timer
            closing = self._transport.is_closing()
            now = before if closing else self._progress()
            if now == before:
                self.abort("the peer takes nothing")
            else:
                timer = self._loop.call_later(self._write_seconds, look, now)

        timer = self._loop.call_later(self._write_seconds, look, self._progress())
        try:
            yield
        finally:
            timer.cancel()

    def _progress(self) -> int:
        """A number that changes whenever the peer took something."""
        count = acknowledged(self._transport)
        return -self._transport.get_write_buffer_size() if count is None else count


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000


def _address(transport: asyncio.BaseTransport) -> str:
    peer = transport.get_extra_info("peername")
    if not peer:
        return "unknown"
    host, port = peer[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
