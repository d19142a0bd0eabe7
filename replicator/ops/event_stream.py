"""One ``/v1/watch`` response: changes as server-sent events until either side ends it.

Memory is bounded twice: the subscription drops a reader that falls behind, and a write that the
other end does not take within a deadline ends the connection.  Between changes a comment is sent at
a fixed interval, so the reader can tell silence from a dead link.

Source: WHATWG HTML, section "Server-sent events".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
from aiohttp import web

from replicator.ops.broadcast import LaggedError
from replicator.ops.views import Json, Selection

RETRY_MILLISECONDS = 1000
_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


async def _next(changes: AsyncIterator[Json]) -> Json | None:
    """The next change; None at the end (a task must not raise StopAsyncIteration)."""
    return await anext(changes, None)


class EventStream:
    """Carries one subscription to one HTTP response."""

    def __init__(
        self,
        changes: AsyncIterator[Json],
        chosen: Selection,
        *,
        heartbeat: float,
        write: float,
        closing: asyncio.Event,
    ) -> None:
        """Send those of ``changes`` that are ``chosen``; end when ``closing`` is set.

        ``heartbeat`` is the longest silence, ``write`` the longest wait for the other end to take
        something, in seconds.
        """
        self._changes = changes
        self._chosen = chosen
        self._heartbeat = heartbeat
        self._write_seconds = write
        self._closing = closing

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer ``request``; returns when the stream has ended and leaves the subscription."""
        response = web.StreamResponse(headers=_HEADERS)
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await response.prepare(request)
            await self._write(response, f"retry: {RETRY_MILLISECONDS}\n\n".encode())
            await self._carry(response, closing)
        except (TimeoutError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
        finally:
            closing.cancel()
            leave = getattr(self._changes, "aclose", None)
            if leave is not None:
                await leave()
        return response

    async def _carry(self, response: web.StreamResponse, closing: asyncio.Task[Any]) -> None:
        step: asyncio.Task[Any] = asyncio.ensure_future(_next(self._changes))
        try:
            while True:
                await asyncio.wait(
                    {step, closing},
                    timeout=self._heartbeat,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if closing.done():
                    break
                if not step.done():
                    await self._write(response, b": beat\n\n")
                    continue
                change = step.result()
                if change is None:
                    break
                step = asyncio.ensure_future(_next(self._changes))
                await self._send(response, change)
        except LaggedError as error:
            told = {"code": error.code, "cure": error.cure, "message": error.message}
            await self._write(response, b"event: dropped\ndata: " + orjson.dumps(told) + b"\n\n")
        finally:
            step.cancel()
            with contextlib.suppress(asyncio.CancelledError, LaggedError):
                await step

    async def _send(self, response: web.StreamResponse, change: Json) -> None:
        if self._chosen.admits(change["item"], change["origin"]):
            data = orjson.dumps(change, option=orjson.OPT_SORT_KEYS)
            await self._write(response, b"data: " + data + b"\n\n")

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        """Hand ``data`` over; raises TimeoutError when the other end takes nothing."""
        async with asyncio.timeout(self._write_seconds):
            await response.write(data)
