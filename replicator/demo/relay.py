"""A relay that hands bytes on later: the same bytes, in order, after the pair's one-way delay.

One listening port per ordered pair of regions.  While a region is cut off nothing passes, in either
direction, on links old and new; what was on its way arrives after the heal, as TCP's retransmission
would have it.  What may be under way per direction is bounded, so back-pressure passes through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from clusters.base import Clock

_CHUNK = 64 * 1024
_UNDER_WAY = 256
"""Chunks on their way per direction of a connection."""

_Stream = asyncio.Queue[tuple[float, bytes]]


class DelayingRelay:
    """Forwards connections from one region to another."""

    def __init__(self, target: tuple[str, int], one_way_seconds: float, clock: Clock) -> None:
        """Forward to ``target``; each direction takes ``one_way_seconds``."""
        self._target = target
        self._delay = one_way_seconds
        self._clock = clock
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()
        self.bytes_passed = 0

    async def start(self) -> int:
        """Listen on a free loopback port, which is returned."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    def cut(self) -> None:
        """Let nothing pass."""
        self._open.clear()

    def heal(self) -> None:
        """Let everything pass again."""
        self._open.set()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._handlers.add(task)
            task.add_done_callback(self._handlers.discard)
        try:
            await self._open.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        try:
            async with asyncio.TaskGroup() as group:
                for source, sink in ((reader, far_writer), (far_reader, writer)):
                    under_way: _Stream = asyncio.Queue(_UNDER_WAY)
                    group.create_task(self._take(source, under_way))
                    group.create_task(self._deliver(under_way, sink))
        except* OSError:
            pass
        finally:
            writer.close()
            far_writer.close()

    async def _take(self, source: asyncio.StreamReader, under_way: _Stream) -> None:
        while data := await source.read(_CHUNK):
            await under_way.put((self._clock.monotonic() + self._delay, data))
        await under_way.put((self._clock.monotonic() + self._delay, b""))

    async def _deliver(self, under_way: _Stream, sink: asyncio.StreamWriter) -> None:
        while True:
            due, data = await under_way.get()
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
            await self._open.wait()
            if not data:
                message = "the other side has closed"
                raise ConnectionResetError(message)
            sink.write(data)
            self.bytes_passed += len(data)
            await sink.drain()


class RelayMesh:
    """A relay for every ordered pair; whole regions can be cut off."""

    def __init__(
        self,
        targets: dict[str, tuple[str, int]],
        one_way_ms: Callable[[str, str], float],
        clock: Clock,
    ) -> None:
        """``targets`` names where each region's agent listens."""
        self._relays = {
            (here, there): DelayingRelay(target, one_way_ms(here, there) / 1e3, clock)
            for here in targets
            for there, target in targets.items()
            if here != there
        }

    async def start(self) -> dict[tuple[str, str], int]:
        """Listen; returns the port by which ``here`` reaches ``there``."""
        return {pair: await relay.start() for pair, relay in self._relays.items()}

    async def stop(self) -> None:
        """End everything."""
        await asyncio.gather(*(relay.stop() for relay in self._relays.values()))

    def cut(self, region: str) -> None:
        """Cut ``region`` off from all others."""
        for pair, relay in self._relays.items():
            if region in pair:
                relay.cut()

    def heal(self, region: str) -> None:
        """Join ``region`` to all others again."""
        for pair, relay in self._relays.items():
            if region in pair:
                relay.heal()
