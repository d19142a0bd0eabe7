"""An HTTP server whose every answer is decided by the test, down to how a stream breaks off.

Each request becomes an :class:`Exchange`.  Exchanges go to ``answerer`` if it takes them, else
they wait in a queue for the test, which answers them in any order and manner: documents,
refusals, chunks of any size, streams that end, break, hang or close without framing.

No waiting by the wall clock: :meth:`ScriptedApi.next` moves the fake clock only while nothing
comes.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from tests.support.clock import FakeClock

_YIELDS = 60
_REAL_SECONDS = 10.0
_STEP_SECONDS = 0.1


class Exchange:
    """One request and its answer to be."""

    def __init__(self, request: web.BaseRequest, body: bytes) -> None:
        self.method = request.method
        self.path = request.path
        self.query = dict(request.query)
        self.headers = request.headers
        self.body: Any = json.loads(body) if body else None
        self.done: asyncio.Future[web.StreamResponse] = asyncio.get_running_loop().create_future()
        self._request = request

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"

    @property
    def token(self) -> str | None:
        return self.headers.get("Authorization")

    def answer(
        self, document: object, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        """Answer with a JSON document, framed by its length."""
        self.answer_bytes(json.dumps(document).encode(), status, headers)

    def answer_bytes(
        self, body: bytes, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        """Answer with these bytes, framed by their length."""
        if not self.done.done():
            every = {"Content-Type": "application/json", **(headers or {})}
            self.done.set_result(web.Response(body=body, status=status, headers=every))

    def refuse(self, code: int, reason: str = "", message: str = "", **details: Any) -> None:
        """Answer with a Status."""
        self.answer(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "code": code,
                "reason": reason,
                "message": message,
                "details": details,
            },
            status=code,
        )

    def drop(self) -> None:
        """Close the connection without an answer."""
        self._transport.abort()
        self.answer_bytes(b"")

    async def stream(self) -> Stream:
        """Begin a chunked answer."""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(self._request)
        return Stream(self, response)

    def until_close(self, body: bytes) -> None:
        """Answer without any framing and close."""
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + body
        )
        self._transport.close()
        self.answer_bytes(b"")

    @property
    def _transport(self) -> asyncio.WriteTransport:
        transport = self._request.transport
        assert isinstance(transport, asyncio.WriteTransport)
        return transport

    @property
    def client_is_gone(self) -> bool:
        transport = self._request.transport
        return transport is None or transport.is_closing()


class Stream:
    """A chunked answer under way."""

    def __init__(self, exchange: Exchange, response: web.StreamResponse) -> None:
        self.exchange = exchange
        self._response = response

    async def send(self, *events: object) -> None:
        """Send each event as one chunk and one line."""
        for event in events:
            await self.send_bytes(json.dumps(event).encode() + b"\n")

    async def send_bytes(self, data: bytes) -> None:
        """Send one chunk."""
        await self._response.write(data)

    async def end(self) -> None:
        """End as a server does when its time is over."""
        await self._response.write_eof()
        if not self.exchange.done.done():
            self.exchange.done.set_result(self._response)

    def cut(self) -> None:
        """Close the connection without the last chunk."""
        if not self.exchange.client_is_gone:
            self.exchange._transport.close()
        if not self.exchange.done.done():
            self.exchange.done.set_result(self._response)


Answerer = Callable[[Exchange], bool]


class ScriptedApi:
    """The server; an asynchronous context manager.  ``answerer`` returns whether it took it."""

    def __init__(
        self,
        clock: FakeClock,
        *,
        answerer: Answerer | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.clock = clock
        self.log: list[Exchange] = []
        self.answerer = answerer
        self._tls = tls
        self._waiting: deque[Exchange] = deque()
        self._runner: web.ServerRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(
            web.Server(self._handle, access_log=None), shutdown_timeout=0.01
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for exchange in self.log:
            exchange.answer_bytes(b"", 503)
        assert self._runner is not None
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        exchange = Exchange(request, await request.read())
        self.log.append(exchange)
        if self.answerer is None or not self.answerer(exchange):
            self._waiting.append(exchange)
        return await exchange.done

    async def next(self, *, within: float = 5.0) -> Exchange:
        """The next request for the test; moves the clock by at most ``within`` until it comes."""
        end = self.clock.monotonic() + within
        while True:
            for _ in range(_YIELDS):
                if self._waiting:
                    return self._waiting.popleft()
                await asyncio.sleep(0)
            if self.clock.monotonic() >= end:
                message = f"no request within {within} s; so far: " + ", ".join(
                    f"{one.method} {one.path} {one.query}" for one in self.log[-5:]
                )
                raise AssertionError(message)
            self.clock.advance(min(_STEP_SECONDS, end - self.clock.monotonic()))

    async def time_passes(self, seconds: float) -> None:
        """Let ``seconds`` pass in small steps, whatever comes."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            for _ in range(_YIELDS):
                await asyncio.sleep(0)
            self.clock.advance(min(max(_STEP_SECONDS, seconds / 100), end - self.clock.monotonic()))
        for _ in range(_YIELDS):
            await asyncio.sleep(0)

    async def nothing_for(self, seconds: float) -> None:
        """Let ``seconds`` pass and assert that no request came for the test."""
        await self.time_passes(seconds)
        assert not self._waiting, [one.query for one in self._waiting]


async def eventually(condition: Callable[[], object], what: str = "") -> None:
    """Let the event loop run, without time passing on the fake clock, until the condition holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _REAL_SECONDS
    while not condition():
        if loop.time() > end:
            raise AssertionError(what or "it never became so")
        await asyncio.sleep(0)
