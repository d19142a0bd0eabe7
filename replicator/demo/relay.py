"""A relay that hands bytes on later: the same bytes, in order, after the pair's one-way delay.

One listening port per ordered pair of regions.  What may be under way in one direction is bounded,
so back-pressure passes through; each side's end of stream passes like its bytes.  Setting up a
connection costs the round trip that TCP's handshake would cost.

A cut is a black hole: what arrives is lost, what was under way too, and new dials get no answer.
Nobody is told.  With the heal the connections that lost bytes die, as both ends of them would have
found out by then or must find out now; a stream with a gap is never carried on.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from clusters.base import Clock

CHUNK = 64 * 1024
_RESET = struct.pack("ii", 1, 0)
"""``SO_LINGER`` that makes a close say reset instead of end of stream."""
UNDER_WAY = 4 * 1024 * 1024
"""Bytes under way per direction of a connection: 30 MB/s on the longest link."""


class Sink(Protocol):
    """The side of a stream that bytes are written to; :class:`asyncio.StreamWriter` is one."""

    def write(self, data: bytes) -> None:
        """Queue bytes."""
        ...

    def write_eof(self) -> None:
        """Say that nothing follows."""
        ...

    async def drain(self) -> None:
        """Wait until more may be written."""
        ...


class Lane:
    """One direction of one connection."""

    def __init__(self, delay: float, clock: Clock, *, limit: int = UNDER_WAY) -> None:
        """Bytes take ``delay`` seconds; about ``limit`` of them are under way at most."""
        self._delay = delay
        self._clock = clock
        self._limit = limit
        self._under_way: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self.hole = False
        """Everything is lost."""

    @property
    def under_way(self) -> int:
        """Bytes taken and not delivered."""
        return self._bytes

    async def carry(self, source: asyncio.StreamReader, sink: Sink) -> None:
        """Carry ``source`` into ``sink`` until its end; raises :class:`OSError` when a side fails.

        In a black hole it returns at the end of ``source`` and tells ``sink`` nothing.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._take(source))
            group.create_task(self._deliver(sink))

    async def _take(self, source: asyncio.StreamReader) -> None:
        data = b"-"
        while data:
            data = await source.read(CHUNK)
            self._under_way.append((self._clock.monotonic() + self._delay, data))
            self._bytes += len(data)
            self._changed.set()
            while self._bytes >= self._limit and not self.hole:
                self._changed.clear()
                await self._changed.wait()

    async def _deliver(self, sink: Sink) -> None:
        while True:
            while not self._under_way:
                self._changed.clear()
                await self._changed.wait()
            due, data = self._under_way[0]
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
            self._under_way.popleft()
            self._bytes -= len(data)
            self._changed.set()
            if self.hole:
                if not data:
                    return
                continue
            if not data:
                sink.write_eof()
                return
            sink.write(data)
            await sink.drain()


class _Connection:
    """One accepted connection with the one it is carried to, or with none when it was cut off."""

    def __init__(self, writer: asyncio.StreamWriter, lanes: tuple[Lane, Lane]) -> None:
        self.lanes = lanes
        self.writers = [writer]
        self.hole = False

    def cut(self) -> None:
        """Lose everything from now on."""
        self.hole = True
        for lane in self.lanes:
            lane.hole = True

    def end(self) -> None:
        """Close after what was written, or reset a connection that has lost something."""
        for writer in self.writers:
            if self.hole and not writer.is_closing():
                stream: socket.socket = writer.get_extra_info("socket")
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()
            writer.close()


class DelayingRelay:
    """Forwards connections from one region to another."""

    def __init__(self, target: tuple[str, int], one_way_seconds: float, clock: Clock) -> None:
        """Forward to ``target``; each direction takes ``one_way_seconds``."""
        self._target = target
        self._delay = one_way_seconds
        self._clock = clock
        self._is_cut = False
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()
        self._connections: set[_Connection] = set()

    async def start(self) -> int:
        """Listen on a free loopback port, which is returned."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening and end all connections."""
        if self._server is None:
            return
        self._server.close()
        handlers = tuple(self._handlers)
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self) -> None:
        """Swallow everything from now on."""
        self._is_cut = True
        for connection in self._connections:
            connection.cut()

    def heal(self) -> None:
        """Forward new connections again; those that lost something are reset."""
        self._is_cut = False
        for connection in self._connections:
            if connection.hole:
                connection.end()

    @property
    def connections(self) -> int:
        """How many connections there are, unanswered dials included."""
        return len(self._connections)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a handler runs in its task
        self._handlers.add(task)
        connection = _Connection(
            writer, (Lane(self._delay, self._clock), Lane(self._delay, self._clock))
        )
        self._connections.add(connection)
        if self._is_cut:
            connection.cut()
        try:
            await self._carry(connection, reader, writer)
        except* (OSError, asyncio.CancelledError):
            connection.cut()  # one side is gone, or the relay is stopped: what is left is lost
        finally:
            connection.end()
            self._connections.discard(connection)
            self._handlers.discard(task)

    async def _carry(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await self._clock.sleep(2 * self._delay)
        if connection.hole:
            while await reader.read(CHUNK):
                pass
            return
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        connection.writers.append(far_writer)
        there, back = connection.lanes
        async with asyncio.TaskGroup() as group:
            group.create_task(there.carry(reader, far_writer))
            group.create_task(back.carry(far_reader, writer))


class RelayMesh:
    """A relay for every ordered pair; whole regions can be cut off."""

    def __init__(
        self,
        targets: Mapping[str, tuple[str, int]],
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
        self._cut: set[str] = set()

    async def start(self) -> dict[tuple[str, str], int]:
        """Listen; returns the port by which ``here`` reaches ``there``."""
        return {pair: await relay.start() for pair, relay in self._relays.items()}

    async def stop(self) -> None:
        """End everything."""
        await asyncio.gather(*(relay.stop() for relay in self._relays.values()))

    @property
    def connections(self) -> int:
        """How many connections there are on all relays, unanswered dials included."""
        return sum(relay.connections for relay in self._relays.values())

    def cut(self, region: str) -> None:
        """Cut ``region`` off from all others."""
        self._cut.add(region)
        for pair, relay in self._relays.items():
            if region in pair:
                relay.cut()

    def heal(self, region: str) -> None:
        """Join ``region`` again to all others that are not cut off themselves."""
        self._cut.discard(region)
        for pair, relay in self._relays.items():
            if region in pair and self._cut.isdisjoint(pair):
                relay.heal()
