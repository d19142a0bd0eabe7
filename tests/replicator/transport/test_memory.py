"""What only the twin in memory can do: be cut, one way or both, broken and healed."""

from __future__ import annotations

import asyncio

import pytest

from replicator.errors import RefusedError, TransportError
from replicator.identity import PeerIdentity
from replicator.transport.base import HIGH_WATER, Link, LinkClosed
from replicator.transport.memory import MemoryNetwork
from tests.support.network import Meeting, identity


async def ends(network: MemoryNetwork) -> tuple[Link, Link]:
    meeting = Meeting()
    listener = network.listener(identity("mesa"))
    await listener.start(meeting)
    url = f"https://memory:{listener.address[1]}"
    ours = await network.dialer(identity("fjord")).dial(url, "mesa", 1.0)
    return ours, await meeting.link()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_cut_holds_frames_and_healing_delivers_them_in_order() -> None:
    network = MemoryNetwork()
    ours, theirs = await ends(network)
    await ours.send(b"0")
    assert await theirs.receive() == b"0"
    network.cut("fjord", "mesa")
    for frame in (b"1", b"2"):
        await ours.send(frame)
    receiving = asyncio.create_task(theirs.receive())
    await settle()
    assert not receiving.done()
    network.heal("mesa", "fjord")
    assert await receiving == b"1"
    assert await theirs.receive() == b"2"


async def test_a_one_way_cut_lets_the_other_way_pass() -> None:
    network = MemoryNetwork()
    ours, theirs = await ends(network)
    network.cut("fjord", "mesa", one_way=True)
    await ours.send(b"held")
    await theirs.send(b"passes")
    assert await ours.receive() == b"passes"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await theirs.receive()
    network.heal("fjord", "mesa")
    assert await theirs.receive() == b"held"


async def test_a_close_does_not_cross_a_cut() -> None:
    network = MemoryNetwork()
    ours, theirs = await ends(network)
    network.cut("fjord", "mesa")
    await theirs.close(1000, "bye")
    receiving = asyncio.create_task(ours.receive())
    await settle()
    assert not receiving.done()
    await ours.send(b"not known to be in vain")
    network.heal("fjord", "mesa")
    with pytest.raises(LinkClosed, match="bye"):
        await receiving
    with pytest.raises(LinkClosed, match="bye"):
        await ours.send(b"late")


async def test_nobody_dials_across_a_cut_of_either_direction() -> None:
    network = MemoryNetwork()
    await ends(network)
    for one, other in (("fjord", "mesa"), ("mesa", "fjord")):
        network.cut(one, other, one_way=True)
        with pytest.raises(TransportError):
            await network.dialer(identity("fjord")).dial("https://memory:1", "mesa", 1.0)
        network.heal(one, other)
    await network.dialer(identity("fjord")).dial("https://memory:1", "mesa", 1.0)


async def test_a_firewall_stops_dials_in_one_direction_and_no_link() -> None:
    network = MemoryNetwork()
    ours, theirs = await ends(network)
    network.firewall("fjord", "mesa")
    with pytest.raises(TransportError):
        await network.dialer(identity("fjord")).dial("https://memory:1", "mesa", 1.0)
    await network.dialer(identity("tundra")).dial("https://memory:1", "mesa", 1.0)
    await ours.send(b"goes on")
    assert await theirs.receive() == b"goes on"
    network.firewall("fjord", "mesa", up=False)
    await network.dialer(identity("fjord")).dial("https://memory:1", "mesa", 1.0)


async def test_a_broken_link_loses_what_was_under_way_on_both_ends() -> None:
    network = MemoryNetwork()
    ours, theirs = await ends(network)
    await ours.send(b"lost")
    network.sever("fjord", "tundra")
    network.sever("mesa", "fjord")
    for link in (ours, theirs):
        with pytest.raises(LinkClosed) as caught:
            await link.receive()
        assert caught.value.close_code is None


async def test_a_sender_that_waits_across_a_cut_ends_when_the_link_breaks() -> None:
    network = MemoryNetwork()
    ours, _ = await ends(network)
    network.cut("fjord", "mesa")
    sending = asyncio.create_task(ours.send(b"x" * (HIGH_WATER + 1)))
    await settle()
    assert not sending.done()
    network.sever("fjord", "mesa")
    with pytest.raises(LinkClosed):
        await sending


async def test_a_frame_above_the_receivers_limit_closes_with_1009() -> None:
    network = MemoryNetwork(max_frame=10)
    ours, theirs = await ends(network)
    ours._max_frame = 100  # type: ignore[attr-defined]
    await ours.send(b"x" * 11)
    with pytest.raises(LinkClosed) as caught:
        await theirs.receive()
    assert caught.value.close_code == 1009
    with pytest.raises(LinkClosed) as caught:
        await ours.receive()
    assert caught.value.close_code == 1009


async def test_another_clusterset_is_refused() -> None:
    network = MemoryNetwork()
    await ends(network)
    dialer = network.dialer(PeerIdentity("staging", "fjord"))
    with pytest.raises(RefusedError) as caught:
        await dialer.dial("https://memory:1", "mesa", 1.0)
    assert caught.value.code == "clusterset_mismatch"
