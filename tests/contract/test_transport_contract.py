"""What every transport does: run on the twin in memory and on mutual TLS over loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from replicator.errors import RefusedError, TransportError
from replicator.identity import PeerIdentity
from replicator.transport.base import (
    HIGH_WATER,
    Admit,
    Link,
    LinkClosed,
    Listener,
    OnLink,
    PeerRefusedError,
    Refusal,
    admit_all,
)
from replicator.transport.doorway import Bounds
from tests.support.network import (
    DIAL_SECONDS,
    FRAME_LIMIT,
    Meeting,
    MemoryWire,
    TlsWire,
    Wire,
    echo,
    eventually,
    identity,
    url_of,
)


class Stage:
    """A wire, and what was started on it."""

    def __init__(self, wire: Wire, stack: AsyncExitStack) -> None:
        self.wire = wire
        self._stack = stack

    async def listen(
        self,
        on_link: OnLink,
        cluster: str = "mesa",
        admit: Admit = admit_all,
        bounds: Bounds | None = None,
    ) -> Listener:
        listener = self.wire.listener(cluster, admit, bounds)
        await listener.start(on_link)
        self._stack.push_async_callback(listener.stop, 1.0)
        return listener

    async def dial(self, listener: Listener, *, by: str = "fjord", expecting: str = "mesa") -> Link:
        link = await self.wire.dialer(by).dial(url_of(listener), expecting, DIAL_SECONDS)
        self._stack.push_async_callback(link.close)
        return link

    async def ends(self) -> tuple[Link, Link]:
        """The dialling and the listening end of a link."""
        meeting = Meeting()
        listener = await self.listen(meeting)
        ours = await self.dial(listener)
        self._stack.callback(meeting.end)
        return ours, await meeting.link()


@pytest.fixture(params=["memory", "tls"])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    wire: Wire = MemoryWire() if request.param == "memory" else TlsWire(tmp_path)
    async with AsyncExitStack() as stack:
        yield Stage(wire, stack)


async def closed(link: Link) -> LinkClosed:
    """How the link ends for who listens on it."""
    with pytest.raises(LinkClosed) as caught:
        async with asyncio.timeout(DIAL_SECONDS):
            await link.receive()
    return caught.value


async def test_both_ends_know_who_the_other_is_and_who_dialled(stage: Stage) -> None:
    ours, theirs = await stage.ends()
    assert (ours.identity, ours.dialled) == (identity("mesa"), True)
    assert (theirs.identity, theirs.dialled) == (identity("fjord"), False)
    assert ours.remote
    assert theirs.remote


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, FRAME_LIMIT])
async def test_frames_arrive_whole_and_unchanged_up_to_the_limit(stage: Stage, size: int) -> None:
    ours, theirs = await stage.ends()
    frame = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    for sender, receiver in ((ours, theirs), (theirs, ours)):
        async with asyncio.TaskGroup() as group:
            group.create_task(sender.send(frame))
            received = await receiver.receive()
        assert received == frame
        assert sender.bytes_sent == receiver.bytes_received >= size + 2


async def test_frames_keep_their_order_both_ways_at_once(stage: Stage) -> None:
    listener = await stage.listen(echo)
    link = await stage.dial(listener)
    frames = [b"%d" % number for number in range(200)]

    async def send() -> None:
        for frame in frames:
            await link.send(frame)

    async with asyncio.TaskGroup() as group:
        group.create_task(send())
        assert [await link.receive() for _ in frames] == frames


async def test_a_frame_above_the_limit_is_not_sent(stage: Stage) -> None:
    ours, theirs = await stage.ends()
    with pytest.raises(ValueError, match="above the limit"):
        await ours.send(b"x" * (FRAME_LIMIT + 1))
    await ours.send(b"next")
    assert await theirs.receive() == b"next"


async def test_a_sender_waits_for_a_receiver_that_takes_nothing(stage: Stage) -> None:
    """Memory for a peer is bounded: what waits is a few buffers, whatever there is to send."""
    ours, theirs = await stage.ends()
    sent = 0

    async def send() -> None:
        nonlocal sent
        while sent < 400:
            await ours.send(b"x" * HIGH_WATER)
            sent += 1

    async with asyncio.TaskGroup() as group:
        sending = group.create_task(send())
        before = -1
        while before != sent:
            before = sent
            await asyncio.wait({sending}, timeout=0.2)
        assert sent < 400
        for _ in range(400):
            await theirs.receive()
    assert sent == 400


async def test_a_close_carries_its_code_and_reason_after_what_was_sent(stage: Stage) -> None:
    ours, theirs = await stage.ends()
    await ours.send(b"last")
    async with asyncio.TaskGroup() as group:
        group.create_task(ours.close(1008, "bad frame"))
        assert await theirs.receive() == b"last"
        end = await closed(theirs)
    assert (end.close_code, end.reason) == (1008, "bad frame")
    assert end.code == "link_closed"


async def test_a_closed_link_refuses_to_send_and_to_receive_on_both_ends(stage: Stage) -> None:
    ours, theirs = await stage.ends()
    async with asyncio.TaskGroup() as group:
        group.create_task(theirs.close(1001, "away"))
        await closed(ours)
    for link in (ours, theirs):
        for _ in range(10):
            assert (await closed(link)).close_code == 1001
        with pytest.raises(LinkClosed):
            await link.send(b"late")


async def test_only_the_first_close_counts(stage: Stage) -> None:
    ours, theirs = await stage.ends()
    async with asyncio.TaskGroup() as group:
        group.create_task(ours.close(1008, "first"))
        assert (await closed(theirs)).reason == "first"
    await ours.close(1000, "second")
    assert (await closed(ours)).reason == "first"


async def test_a_close_ends_a_receive_that_waits_on_the_same_end(stage: Stage) -> None:
    ours, theirs = await stage.ends()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(closed(ours))
        group.create_task(closed(theirs))
        await asyncio.sleep(0)
        await ours.close(1000, "done")
    assert waiting.result().close_code == 1000


async def test_the_link_is_closed_when_its_handler_returns(stage: Stage) -> None:
    async def take_one(link: Link) -> None:
        await link.receive()

    ours = await stage.dial(await stage.listen(take_one))
    await ours.send(b"that is all")
    assert (await closed(ours)).close_code == 1000


async def test_a_handler_that_fails_ends_its_own_link_only(stage: Stage) -> None:
    async def fail_on_demand(link: Link) -> None:
        while await link.receive() != b"fail":
            await link.send(b"fine")
        raise RuntimeError

    listener = await stage.listen(fail_on_demand)
    one, other = await stage.dial(listener), await stage.dial(listener, by="tundra")
    await one.send(b"fail")
    assert (await closed(one)).close_code == 1011
    await other.send(b"hello")
    assert await other.receive() == b"fine"


async def test_stopping_closes_links_with_1001_and_ends_their_handlers(stage: Stage) -> None:
    listener = await stage.listen(echo)
    links = [await stage.dial(listener, by=name) for name in ("fjord", "tundra")]
    async with asyncio.TaskGroup() as group:
        ends = [group.create_task(closed(link)) for link in links]
        await listener.stop(5.0)
    assert [end.result().close_code for end in ends] == [1001, 1001]
    with pytest.raises(TransportError):
        await stage.dial(listener)


async def test_stopping_does_not_wait_longer_than_its_grace(stage: Stage) -> None:
    """Neither a peer that never reads nor a handler that never ends holds it up."""
    meeting = Meeting()
    listener = await stage.listen(meeting)
    await stage.dial(listener)
    await meeting.link()
    loop = asyncio.get_running_loop()
    began = loop.time()
    await listener.stop(0.5)
    assert loop.time() - began < 1.0
    await eventually(lambda: meeting.ended == 1)


async def test_a_draining_listener_turns_peers_away_and_keeps_its_links(stage: Stage) -> None:
    listener = await stage.listen(echo)
    link = await stage.dial(listener)
    listener.drain()
    with pytest.raises(PeerRefusedError, match="shutting down") as caught:
        await stage.dial(listener, by="tundra")
    assert (caught.value.status, caught.value.code) == (503, "draining")
    assert caught.value.retry_after == 1.0
    await link.send(b"still here")
    assert await link.receive() == b"still here"


async def test_one_cluster_has_so_many_links_at_once(stage: Stage) -> None:
    listener = await stage.listen(echo, bounds=Bounds(links_per_peer=2))
    first, second = await stage.dial(listener), await stage.dial(listener)
    with pytest.raises(PeerRefusedError, match="2 links of fjord already") as caught:
        await stage.dial(listener)
    assert (caught.value.status, caught.value.code) == (429, "busy")
    assert caught.value.retry_after == 10.0
    await stage.dial(listener, by="tundra")
    for link in (first, second):
        await link.send(b"still here")
        assert await link.receive() == b"still here"
    await first.close()
    await dialled_again(stage, listener, by="fjord")


async def test_a_full_listener_asks_new_clusters_for_time_and_renews_its_links(
    stage: Stage,
) -> None:
    listener = await stage.listen(echo, bounds=Bounds(links=1))
    link = await stage.dial(listener)
    with pytest.raises(PeerRefusedError, match=r"limits\.links is 1") as caught:
        await stage.dial(listener, by="tundra")
    assert (caught.value.status, caught.value.code) == (503, "shedding")
    assert caught.value.retry_after == 30.0
    assert caught.value.cure == "raise limits.links"
    renewed = await stage.dial(listener)
    await link.close()
    await renewed.close()
    await dialled_again(stage, listener, by="tundra")


async def dialled_again(stage: Stage, listener: Listener, *, by: str) -> None:
    """Dial until the listener has noticed that a link is over."""
    async with asyncio.timeout(DIAL_SECONDS):
        while True:
            try:
                await stage.dial(listener, by=by)
            except PeerRefusedError:
                await asyncio.sleep(0.01)
            else:
                return


async def test_nobody_there_is_a_transport_error(stage: Stage) -> None:
    listener = await stage.listen(echo)
    await listener.stop(1.0)
    with pytest.raises(TransportError, match="mesa at") as caught:
        await stage.dial(listener)
    assert caught.value.code == "unreachable"
    assert caught.value.cure


async def test_another_cluster_than_expected_is_refused(stage: Stage) -> None:
    listener = await stage.listen(echo)
    with pytest.raises(RefusedError, match="mesa answers where tundra") as caught:
        await stage.dial(listener, expecting="tundra")
    assert caught.value.code == "identity_mismatch"
    assert caught.value.cure


async def test_the_owner_has_the_last_word_on_who_is_let_in(stage: Stage) -> None:
    asked: list[PeerIdentity] = []

    def admit(peer: PeerIdentity) -> Refusal | None:
        asked.append(peer)
        if peer.cluster == "fjord":
            return Refusal(403, "cluster_forgotten", "fjord was forgotten", "admit it again")
        return None

    listener = await stage.listen(echo, admit=admit)
    with pytest.raises(PeerRefusedError) as caught:
        await stage.dial(listener)
    error = caught.value
    assert (error.status, error.code, error.cure) == (403, "cluster_forgotten", "admit it again")
    assert "fjord was forgotten" in error.message
    await stage.dial(listener, by="tundra")
    assert asked == [identity("fjord"), identity("tundra")]
