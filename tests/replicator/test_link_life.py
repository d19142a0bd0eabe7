"""Hours of two agents' links in virtual time: renewals, certificates that end, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from replicator.config import Peer
from replicator.identity import PeerIdentity
from replicator.transport.base import Refusal
from replicator.transport.memory import MemoryListener, MemoryNetwork
from tests.support.clock import FakeClock
from tests.support.parties import Party

HOUR = 3600.0


class Bed:
    """Two parties, a network, and time."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.network = MemoryNetwork()
        self.parties: dict[str, Party] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self.listeners: dict[str, MemoryListener] = {}

    async def start(self, *dials: tuple[str, str]) -> None:
        """Have fjord and mesa up; ``dials`` says who dials whom."""
        names = ("fjord", "mesa")
        for name in names:
            peers = tuple(other for other in names if other != name)
            party = self.parties[name] = Party(self.clock, name, peers)
            identity = PeerIdentity("set", name)
            self.listeners[name] = self.network.listener(identity, party.admit)
            await self.listeners[name].start(party.links.serve)
        for by, to in dials:
            port = self.listeners[to].address[1]
            peer = Peer(to, f"https://memory:{port}")
            dialer = self.network.dialer(PeerIdentity("set", by))
            self.tasks.append(
                asyncio.create_task(self.parties[by].links.keep_dialled(peer, dialer))
            )

    def __getitem__(self, name: str) -> Party:
        return self.parties[name]

    def links(self, name: str) -> dict[int, float]:
        """Age of each open session of a party."""
        now = self.clock.monotonic()
        sessions = self[name].replica.sessions.items()
        return {number: now - session.opened_at for number, session in sessions}

    async def live(
        self, seconds: float, each: Callable[[], None] = lambda: None, step: float = 1.0
    ) -> None:
        """Let time pass; ``each`` is called after every step."""
        for _ in range(round(seconds / step)):
            for party in self.parties.values():
                party.tick()
            await self.clock.settle(12)
            self.clock.advance(step)
            await self.clock.settle(12)
            each()


@pytest.fixture
async def bed() -> AsyncIterator[Bed]:
    made = Bed()
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)
    for listener in made.listeners.values():
        await listener.stop(0.1)


@pytest.mark.parametrize("dialler", ["fjord", "mesa"])
async def test_a_link_is_renewed_within_the_hour_and_there_is_always_one(
    bed: Bed, dialler: str
) -> None:
    """Also when the larger of the two is the only one that can dial."""
    listener = {"fjord": "mesa", "mesa": "fjord"}[dialler]
    await bed.start((dialler, listener))
    await bed.live(3)
    seen: set[int] = set()
    oldest = 0.0

    def look() -> None:
        nonlocal oldest
        ages = bed.links("fjord")
        seen.update(ages)
        oldest = max(oldest, *ages.values())
        assert bed["fjord"].linked
        assert bed["mesa"].linked

    await bed.live(3 * HOUR, look, step=2.0)
    assert oldest < HOUR
    assert len(seen) in {4, 5}, "the first link and a renewal or so an hour"
    assert len(bed.links("fjord")) == len(bed.links("mesa")) == 1
    for name, other in (("fjord", "mesa"), ("mesa", "fjord")):
        bed[name].publish("10.0.0.2")
        await bed.live(2)
        assert bed[other].sees(name) == ["10.0.0.2"]
        assert bed[name].notices == []


async def test_when_both_dial_the_link_of_the_smaller_stays_and_is_renewed(bed: Bed) -> None:
    await bed.start(("fjord", "mesa"), ("mesa", "fjord"))
    await bed.live(10)

    def look() -> None:
        assert bed["fjord"].linked
        assert bed["mesa"].linked

    await bed.live(2 * HOUR, look, step=2.0)
    (session,) = bed["fjord"].replica.sessions.values()
    assert session.dialled
    assert session.opened_at > 5000, "it was renewed"


async def test_a_renewal_that_fails_is_tried_again_and_the_link_ends_with_the_hour(
    bed: Bed,
) -> None:
    await bed.start(("fjord", "mesa"))
    await bed.live(3)
    bed["mesa"].refusal = Refusal(403, "no_cluster_identity", "not today")
    status = bed["fjord"].links.peers["mesa"]
    await bed.live(HOUR - 10)
    assert bed["fjord"].linked, "as long as the hour lasts"
    assert status.error is not None
    assert 3 <= status.attempts < 40
    await bed.live(30)
    assert not bed["fjord"].linked
    assert status.state == "refused"
    bed["mesa"].refusal = None
    await bed.live(70)
    assert bed["fjord"].linked
    assert status.error is None


async def test_p39_a_link_ends_with_the_certificate_of_the_peer_and_it_is_told_why(
    bed: Bed,
) -> None:
    """The peer renewed nothing: 20 minutes of certificate are 20 minutes of links."""
    bed.network.expiries["mesa"] = bed.clock.wall_ns() + 1200 * 10**9
    await bed.start(("fjord", "mesa"))
    await bed.live(1190)
    assert bed["fjord"].linked
    assert bed["fjord"].notices == []
    bed["mesa"].refusal = Refusal(403, "no_cluster_identity", "so would TLS do")
    await bed.live(15)
    assert not bed["fjord"].linked
    assert bed["fjord"].events("peer_rejected") == ["certificate_expired"]
    assert bed["mesa"].events("rejected_by_peer") == ["certificate_expired"]
    assert bed["mesa"].sees("fjord") == ["10.0.0.1"], "what is committed stays"


@pytest.mark.parametrize("whose", ["fjord", "mesa"])
async def test_p39_a_replaced_certificate_is_used_by_the_renewal_before_the_old_one_ends(
    bed: Bed, whose: str
) -> None:
    """Whichever side's it is: who dialled sees both ends, and is early enough."""
    begin = bed.clock.wall_ns()
    bed.network.expiries[whose] = begin + 1200 * 10**9
    await bed.start(("fjord", "mesa"))
    await bed.live(600)
    bed.network.expiries[whose] = begin + 30 * 86400 * 10**9

    def look() -> None:
        assert bed["fjord"].linked
        assert bed["mesa"].linked

    await bed.live(1200, look)
    assert bed["fjord"].notices == bed["mesa"].notices == []
    assert len(bed.links("fjord")) == 1
    assert next(iter(bed.links("fjord").values())) < 800


async def test_a_certificate_that_nobody_replaces_is_not_asked_for_without_end(bed: Bed) -> None:
    bed.network.expiries["mesa"] = bed.clock.wall_ns() + 1200 * 10**9
    await bed.start(("fjord", "mesa"))
    await bed.live(1190)
    assert bed["fjord"].links.peers["mesa"].attempts <= 6


async def test_who_rejects_us_is_dialled_ever_more_seldom(bed: Bed) -> None:
    """A link that comes up and is rejected counts as refused, not as one that was lost."""
    await bed.start(("fjord", "mesa"))
    bed["mesa"].replica.uids["fjord"] = "another"
    await bed.live(1)
    status = bed["fjord"].links.peers["mesa"]
    await bed.live(600, step=0.25)
    assert 12 <= status.attempts <= 80
    bed["mesa"].replica.uids["fjord"] = ""
    await bed.live(70, step=0.25)
    assert bed["fjord"].linked


async def test_a_peer_that_asks_for_time_is_left_alone_for_it(bed: Bed) -> None:
    await bed.start(("fjord", "mesa"))
    await bed.live(3)
    bed["mesa"].refusal = Refusal(429, "busy", "later", retry_after=90.0)
    bed.network.sever("fjord", "mesa")
    status = bed["fjord"].links.peers["mesa"]
    await bed.live(5)
    before = status.attempts
    await bed.live(84)
    assert status.attempts == before
    bed["mesa"].refusal = None
    await bed.live(100)
    assert status.attempts == before + 1
    assert bed["fjord"].linked
