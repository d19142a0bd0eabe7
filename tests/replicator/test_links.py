"""Whom an agent dials when there are more clusters than a full mesh is for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import cast

import pytest

from crdt import Origin, OriginSet, StampClock
from replicator import messages as m
from replicator.config import Peer
from replicator.effects import Effect, Wake
from replicator.errors import TransportError
from replicator.freshness import Exchange
from replicator.handshake import Self
from replicator.identity import PeerIdentity
from replicator.journal import Journal
from replicator.links import Links
from replicator.own_origin import OwnOrigin
from replicator.recorder import Recorder
from replicator.replica import Replica
from replicator.transport.base import Link, LinkClosed
from tests.support.clock import FakeClock
from tests.support.signers import FakeSigner, FakeVerifier

PEERS = [Peer(f"c{number}", f"https://c{number}") for number in range(40)]
NAMES = [peer.cluster for peer in PEERS]


class Silent:
    """A link on which nothing is ever said."""

    dialled = True
    bytes_sent = bytes_received = 0
    own_expires_ns = peer_expires_ns = None

    def __init__(self, cluster: str) -> None:
        self.identity = PeerIdentity("set", cluster)
        self.closed = asyncio.get_running_loop().create_future()

    async def send(self, frame: bytes) -> None:
        """Say nothing to anybody."""

    async def receive(self) -> bytes:
        await asyncio.shield(self.closed)
        raise LinkClosed(*self.closed.result())

    async def close(self, code: int = 1000, reason: str = "") -> None:
        if not self.closed.done():
            self.closed.set_result((code, reason))


class Dials:
    """A dialer that reaches all but some, and remembers whom it dialled."""

    def __init__(self, unreachable: set[str]) -> None:
        self.unreachable = unreachable
        self.dialled: set[str] = set()
        self.links: dict[str, Silent] = {}

    async def dial(self, url: str, cluster: str, timeout: float) -> Link:  # noqa: ASYNC109
        self.dialled.add(cluster)
        if cluster in self.unreachable:
            message = f"no answer from {cluster}"
            raise TransportError(message, code="timeout")
        link = self.links[cluster] = Silent(cluster)
        return cast("Link", link)


class Bed:
    """The links of one agent and time for them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        elements, signer = OriginSet(), FakeSigner("me")
        own = OwnOrigin(Origin("me"), signer, epoch=1, clock=StampClock(), elements=elements)
        self.replica = Replica(Self("set", "me", "i", "uid", "test"), own, FakeVerifier(), [])
        recorder = Recorder(cast("Journal", None), self.replica.remotes, self.clock)
        self.links = Links(
            self.replica, recorder, self.clock, random.Random(1), self.perform, NAMES
        )
        self.dialer = Dials(set())
        self.tasks: list[asyncio.Task[None]] = []

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            assert isinstance(effect, Wake)
            self.links.wake(effect.number)

    def publish(self) -> None:
        """Have a first head, which the choice waits for."""
        self.replica.own.seal(self.clock.wall_ns())
        self.replica.own.published()

    def greet(self) -> None:
        """All peers have said hello and are measured: the higher the number, the nearer."""
        for session in self.replica.sessions.values():
            instance = f"i-{session.cluster}"
            session.peer = m.Hello(0, "set", session.cluster, instance, "writer", 1, "", "", 0)
            session.clock.add(Exchange(10_000 - NAMES.index(session.cluster), 0))

    async def live(self, seconds: int) -> None:
        for peer in PEERS * (not self.tasks):
            self.tasks.append(asyncio.create_task(self.links.keep_dialled(peer, self.dialer)))
        for _ in range(10 * seconds):
            for _ in range(20):
                await asyncio.sleep(0)
            self.greet()
            self.links.review(NAMES)
            self.clock.advance(0.1)

    @property
    def connected(self) -> set[str]:
        return {session.cluster for session in self.replica.sessions.values()}


@pytest.fixture
async def bed() -> AsyncIterator[Bed]:
    made = Bed()
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


async def test_only_the_chosen_are_dialled_and_the_nearest_are_found_in_time(bed: Bed) -> None:
    await bed.live(1)
    assert bed.connected == bed.dialer.dialled == bed.links.overlay.chosen
    first = bed.connected
    assert len(first) <= 12
    states = {bed.links.peers[name].state for name in {*NAMES} - first}
    assert states == {"not_chosen"}
    await bed.live(4)
    assert bed.connected == first, "before the first head nobody is let go"
    bed.publish()
    await bed.live(120)
    assert bed.dialer.dialled == {*NAMES}
    assert bed.connected == bed.links.overlay.chosen >= {*NAMES[-8:]}
    assert len(bed.connected) <= 11
    (gone, *_) = sorted(bed.dialer.dialled - bed.connected)
    assert bed.dialer.links[gone].closed.result() == (1000, "not needed")
    assert bed.links.peers[gone].state == "not_chosen"


async def test_for_those_that_do_not_answer_others_are_dialled(bed: Bed) -> None:
    bed.publish()
    bed.dialer.unreachable = set(bed.links.overlay.chosen)
    await bed.live(60)
    assert bed.dialer.unreachable & bed.links.overlay.chosen
    assert len(bed.connected) >= 8
    bed.dialer.unreachable = set()
    await bed.live(60)
    assert len(bed.connected) <= 11
    assert {bed.links.peers[name].state for name in {*NAMES} - bed.connected} == {"not_chosen"}
