"""Renewals and certificates that end, over real mutual TLS; only the hours are virtual."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from replicator.config import Peer
from replicator.pem import certificates_pem, key_pem
from replicator.pki import Authority
from replicator.transport.base import Link
from replicator.transport.dialer import TlsDialer
from replicator.transport.reload import LiveTls
from replicator.transport.server import TlsListener
from tests.support.certificates import authority, now, pair
from tests.support.clock import FakeClock
from tests.support.network import live_tls, url_of
from tests.support.parties import Party

SECONDS = 20.0


class Bed:
    """fjord dials mesa."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca: Authority = authority()
        self.clock = FakeClock(wall_ns=int(now().timestamp()) * 10**9)
        self.fjord = Party(self.clock, "fjord", ("mesa",))
        self.mesa = Party(self.clock, "mesa", ("fjord",))
        self.tls: dict[str, LiveTls] = {
            name: live_tls(folder / name, self.ca, name) for name in ("fjord", "mesa")
        }
        self.listener = TlsListener("127.0.0.1", 0, self.tls["mesa"], admit=self.mesa.admit)
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await self.listener.start(self.mesa.links.serve)
        peer = Peer("mesa", url_of(self.listener))
        dialer = TlsDialer(self.tls["fjord"], now)
        self.tasks.append(asyncio.create_task(self.fjord.links.keep_dialled(peer, dialer)))

    def replace(self, cluster: str) -> bytes:
        """Give a cluster another certificate; returns it."""
        fresh = pair(self.ca, cluster)
        home = self.folder / cluster
        (home / "tls.crt").write_bytes(certificates_pem([fresh.certificate]))
        (home / "tls.key").write_bytes(key_pem(fresh.key))
        assert self.tls[cluster].check()
        return self.tls[cluster].credentials.chain_der[0]

    def links(self, party: Party) -> list[Link]:
        """The open links of a party on which both have said hello."""
        found = [
            party.links.link_of(number)
            for number, session in party.replica.sessions.items()
            if session.peer is not None
        ]
        return [link for link in found if link is not None]

    async def until(self, condition: object, *, step: float = 0.1) -> None:
        """Let time pass until a condition holds; of the real one a millisecond a step."""
        async with asyncio.timeout(SECONDS):
            while not condition():  # type: ignore[operator]
                self.fjord.tick()
                self.mesa.tick()
                await asyncio.sleep(0.001)
                self.clock.advance(step)


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[Bed]:
    made = Bed(tmp_path)
    await made.start()
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)
    await made.listener.stop(1.0)


async def test_p39_a_renewal_shows_the_certificates_of_its_time_and_leaves_no_gap(bed: Bed) -> None:
    await bed.until(lambda: bed.fjord.sees("mesa") and bed.mesa.sees("fjord"))
    (old,) = bed.links(bed.fjord)
    new = {name: bed.replace(name) for name in ("fjord", "mesa")}
    assert bed.links(bed.fjord) == [old], "links that are up stay up"
    both = False

    def renewed() -> bool:
        nonlocal both
        assert bed.links(bed.fjord)
        assert bed.links(bed.mesa)
        links = bed.links(bed.fjord)
        both |= len(links) == 2
        return old not in links

    await bed.until(renewed, step=1.0)
    assert both, "the new one was up before the old one was closed"
    (link,) = bed.links(bed.fjord)
    assert link.peer_certificate == new["mesa"] != old.peer_certificate
    await bed.until(lambda: len(bed.links(bed.mesa)) == 1)
    assert bed.links(bed.mesa)[0].peer_certificate == new["fjord"]
    bed.fjord.publish("10.0.0.2")
    await bed.until(lambda: bed.mesa.sees("fjord") == ["10.0.0.2"])
    assert bed.fjord.notices == bed.mesa.notices == []


async def test_p39_no_link_outlives_the_certificate_it_was_made_with(bed: Bed) -> None:
    """Ten days on, on the agents' clocks: each ends the link and says why."""
    await bed.until(lambda: bed.fjord.sees("mesa") and bed.mesa.sees("fjord"))
    bed.clock.set_wall_ns(bed.clock.wall_ns() + 11 * 86400 * 10**9)
    await bed.until(lambda: bed.fjord.notices and bed.mesa.notices)
    events = {notice.event for notice in bed.fjord.notices + bed.mesa.notices}
    assert events <= {"peer_rejected", "rejected_by_peer"}
    codes = {notice.fields["code"] for notice in bed.fjord.notices + bed.mesa.notices}
    assert codes == {"certificate_expired"}
