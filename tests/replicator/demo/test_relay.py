from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from replicator.demo.relay import CHUNK, DelayingRelay, Lane, RelayMesh
from tests.support.clock import FakeClock
from tests.support.network import eventually

DELAY = 0.05
SOON = 10.0


class Recording:
    """A sink that notes when it got what."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self.got: list[tuple[float, bytes]] = []
        self.ended_at: float | None = None
        self.may_drain = asyncio.Event()
        self.may_drain.set()

    def write(self, data: bytes) -> None:
        self.got.append((round(self._clock.monotonic() - self._began, 6), data))

    def write_eof(self) -> None:
        self.ended_at = round(self._clock.monotonic() - self._began, 6)

    async def drain(self) -> None:
        await self.may_drain.wait()

    @property
    def data(self) -> bytes:
        return b"".join(data for _, data in self.got)


class Carried:
    """A lane with its two ends in the test's hands."""

    def __init__(self, *, limit: int = 1 << 20) -> None:
        self.clock = FakeClock()
        self.source = asyncio.StreamReader()
        self.sink = Recording(self.clock)
        self.lane = Lane(DELAY, self.clock, limit=limit)
        self.task = asyncio.ensure_future(self.lane.carry(self.source, self.sink))


@pytest.fixture
async def carried() -> AsyncIterator[Carried]:
    made = Carried()
    yield made
    made.task.cancel()
    await asyncio.gather(made.task, return_exceptions=True)


async def test_bytes_arrive_after_the_delay_and_not_before(carried: Carried) -> None:
    carried.source.feed_data(b"head")
    await carried.clock.run_for(DELAY - 0.001)
    assert carried.sink.got == []
    assert carried.lane.under_way == 4
    await carried.clock.run_for(0.001)
    assert carried.sink.got == [(DELAY, b"head")]
    assert carried.lane.under_way == 0


async def test_bytes_sent_one_after_the_other_are_under_way_together(carried: Carried) -> None:
    for number in range(5):
        carried.source.feed_data(b"%d" % number)
        await carried.clock.run_for(0.01)
    await carried.clock.run_for(DELAY)
    assert carried.sink.got == [(round(DELAY + 0.01 * n, 6), b"%d" % n) for n in range(5)]


async def test_the_end_of_the_stream_comes_after_the_bytes_and_ends_the_lane(
    carried: Carried,
) -> None:
    carried.source.feed_data(b"last words")
    await carried.clock.settle()
    carried.source.feed_eof()
    await carried.clock.run_for(DELAY)
    assert carried.sink.data == b"last words"
    assert carried.sink.ended_at == DELAY
    await carried.task


async def test_a_sink_that_takes_nothing_stops_the_source() -> None:
    carried = Carried(limit=3 * CHUNK)
    carried.sink.may_drain.clear()
    carried.source.feed_data(bytes(10 * CHUNK))
    carried.source.feed_eof()
    await carried.clock.run_for(10.0)
    assert carried.lane.under_way == 3 * CHUNK
    carried.sink.may_drain.set()
    await carried.clock.run_for(10.0)
    assert carried.sink.data == bytes(10 * CHUNK)
    await carried.task


async def test_a_black_hole_loses_what_is_under_way_and_what_comes(carried: Carried) -> None:
    carried.source.feed_data(b"under way")
    await carried.clock.settle()
    carried.lane.hole = True
    carried.source.feed_data(b"later")
    await carried.clock.run_for(1.0)
    assert carried.sink.got == []
    assert carried.lane.under_way == 0


async def test_a_black_hole_hides_the_end_of_the_stream(carried: Carried) -> None:
    carried.lane.hole = True
    carried.source.feed_eof()
    await carried.clock.run_for(1.0)
    assert carried.sink.ended_at is None
    await carried.task


# ---- on loopback -------------------------------------------------------------------------------

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every line in capitals, and the end with a farewell."""
    while line := await reader.readline():
        writer.write(line.upper())
    writer.write(b"BYE\n")
    writer.close()


class Bed:
    """A relay without delay before a server that shouts; time passes only in :meth:`Relay`."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self._servers: list[asyncio.Server] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.relays: list[DelayingRelay | RelayMesh] = []

    async def serve(self, handler: Handler = shout) -> tuple[str, int]:
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        self._servers.append(server)
        return "127.0.0.1", int(server.sockets[0].getsockname()[1])

    async def relay(self, target: tuple[str, int], delay: float = 0.0) -> tuple[DelayingRelay, int]:
        relay = DelayingRelay(target, delay, self.clock)
        self.relays.append(relay)
        return relay, await relay.start()

    async def dial(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        self._writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        for relay in self.relays:
            await relay.stop()
        for server in self._servers:
            server.close()
            await server.wait_closed()


@pytest.fixture
async def bed() -> AsyncIterator[Bed]:
    made = Bed()
    yield made
    await made.close()


async def line_of(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(SOON):
        return await reader.readline()


async def test_both_directions_pass_and_an_end_on_one_side_leaves_the_other_open(bed: Bed) -> None:
    _, port = await bed.relay(await bed.serve())
    reader, writer = await bed.dial(port)
    writer.write(b"hello\n")
    assert await line_of(reader) == b"HELLO\n"
    writer.write_eof()
    assert await line_of(reader) == b"BYE\n"
    assert await line_of(reader) == b""


async def test_the_first_answer_takes_the_handshake_and_the_way_there_and_back(bed: Bed) -> None:
    _, port = await bed.relay(await bed.serve(), DELAY)
    reader, writer = await bed.dial(port)
    writer.write(b"hello\n")
    answer = asyncio.ensure_future(line_of(reader))
    spent = 0.0
    for step in (2 * DELAY, DELAY, DELAY):
        await eventually(lambda: bed.clock.sleepers > 0)
        assert bed.clock.next_wake == pytest.approx(step)
        assert not answer.done()
        bed.clock.advance(step)
        spent += step
    assert await answer == b"HELLO\n"
    assert spent == pytest.approx(4 * DELAY)


async def test_a_megabyte_arrives_as_it_was_sent(bed: Bed) -> None:
    _, port = await bed.relay(await bed.serve())
    reader, writer = await bed.dial(port)
    lines = [b"%063d\n" % number for number in range(1 << 14)]

    async def send() -> None:
        for line in lines:
            writer.write(line)
            await writer.drain()
        writer.write_eof()

    async with asyncio.timeout(SOON):
        sending = asyncio.ensure_future(send())
        received = await reader.read(-1)
        await sending
    assert received == b"".join(lines) + b"BYE\n"


async def test_a_target_that_is_not_there_ends_the_dial(bed: Bed) -> None:
    target = await bed.serve()
    _, free = await bed.relay(target)
    await bed.relays[0].stop()
    relay, port = await bed.relay(("127.0.0.1", free))
    reader, _ = await bed.dial(port)
    with pytest.raises(ConnectionResetError):
        await line_of(reader)
    await eventually(lambda: relay.connections == 0)


async def test_a_cut_swallows_and_the_heal_resets_what_lost_bytes(bed: Bed) -> None:
    relay, port = await bed.relay(await bed.serve())
    reader, writer = await bed.dial(port)
    writer.write(b"before\n")
    assert await line_of(reader) == b"BEFORE\n"
    relay.cut()
    writer.write(b"lost\n")
    await writer.drain()
    answer = asyncio.ensure_future(line_of(reader))
    await bed.clock.settle()
    assert not answer.done()
    relay.heal()
    with pytest.raises(ConnectionResetError):
        await answer
    await eventually(lambda: relay.connections == 0)
    reader, writer = await bed.dial(port)
    writer.write(b"after\n")
    assert await line_of(reader) == b"AFTER\n"


async def test_a_dial_during_a_cut_gets_no_answer_and_costs_nothing_once_given_up(bed: Bed) -> None:
    dialled = []

    async def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialled.append(writer)

    relay, port = await bed.relay(await bed.serve(note))
    relay.cut()
    reader, writer = await bed.dial(port)
    writer.write(b"client hello")
    await eventually(lambda: relay.connections == 1)
    answer = asyncio.ensure_future(reader.read())
    await bed.clock.settle()
    assert not answer.done()
    writer.close()
    await eventually(lambda: relay.connections == 0)
    assert dialled == []
    assert await answer == b""


async def test_stopping_ends_all_connections(bed: Bed) -> None:
    relay, port = await bed.relay(await bed.serve())
    reader, writer = await bed.dial(port)
    writer.write(b"hello\n")
    assert await line_of(reader) == b"HELLO\n"
    await relay.stop()
    with pytest.raises(ConnectionResetError):
        await line_of(reader)
    assert relay.connections == 0


async def test_a_relay_that_never_started_can_be_stopped() -> None:
    await DelayingRelay(("127.0.0.1", 1), DELAY, FakeClock()).stop()


async def test_a_cut_region_is_cut_off_from_all_and_the_others_are_not(bed: Bed) -> None:
    targets = {name: await bed.serve() for name in ("fjord", "mesa", "tundra")}
    mesh = RelayMesh(targets, lambda _, __: 0.0, bed.clock)
    bed.relays.append(mesh)
    ports = await mesh.start()
    assert len(ports) == 6

    async def passes(here: str, there: str) -> None:
        reader, writer = await bed.dial(ports[here, there])
        writer.write(b"x\n")
        assert await line_of(reader) == b"X\n"

    async def is_lost(here: str, there: str) -> None:
        before = mesh.connections
        reader, writer = await bed.dial(ports[here, there])
        writer.write(b"x\n")
        await eventually(lambda: mesh.connections == before + 1)
        answer = asyncio.ensure_future(reader.read())
        await bed.clock.settle()
        assert not answer.done()
        writer.close()
        await eventually(lambda: mesh.connections == before)
        assert await answer == b""

    mesh.cut("mesa")
    await is_lost("fjord", "mesa")
    await is_lost("mesa", "tundra")
    await passes("fjord", "tundra")
    mesh.cut("tundra")
    mesh.heal("mesa")
    await passes("fjord", "mesa")
    await is_lost("mesa", "tundra")
    mesh.heal("tundra")
    await passes("mesa", "tundra")
