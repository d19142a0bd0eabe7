"""The publisher of an agent that may not lead all the time; the journal's part is a killer's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from crdt import Change, Origin, OriginSet, StampClock
from replicator.effects import Effect
from replicator.errors import JournalError
from replicator.handshake import Self
from replicator.journal_memory import MemoryJournal
from replicator.own_origin import OwnOrigin
from replicator.projection import ClusterInfo, cluster_element
from replicator.publisher import Publisher
from replicator.replica import Replica
from tests.support.clock import FakeClock
from tests.support.signers import FakeSigner, FakeVerifier


class Bed:
    """A publisher over an own origin with something to say."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.journal = MemoryJournal()
        self.own = OwnOrigin(
            Origin("fjord"), FakeSigner("fjord"), epoch=1, clock=StampClock(), elements=OriginSet()
        )
        me = Self("set", "fjord", "one", "uid", "test", leased=True)
        self.replica = Replica(me, self.own, FakeVerifier(), [])
        self.performed: list[Effect] = []
        self.announced: list[tuple[Change, ...]] = []
        self.allowed = False
        self.publisher = Publisher(
            self.replica,
            self.journal,
            self.clock,
            self.performed.extend,
            self.announced.append,
            lambda: self.allowed,
        )
        self.task = asyncio.create_task(self.publisher.run())

    def say(self, region: str) -> None:
        about = dict([cluster_element("fjord", ClusterInfo(region, "uid", "1.0"))])
        self.own.state(None, about, self.clock.wall_ns())
        self.publisher.wake()


@pytest.fixture
async def bed() -> AsyncIterator[Bed]:
    made = Bed()
    yield made
    made.task.cancel()
    await asyncio.gather(made.task, return_exceptions=True)


async def test_nothing_is_published_before_it_is_allowed(bed: Bed) -> None:
    bed.say("north")
    await bed.clock.run_for(5)
    assert not bed.publisher.due
    assert bed.own.published_head is None
    bed.allowed = True
    bed.publisher.wake()
    await bed.clock.run_for(0.1)
    assert bed.own.published_head is not None
    assert bed.publisher.heads == len(bed.announced) == 1


async def test_a_batch_whose_term_ended_while_it_was_stored_is_not_sent(bed: Bed) -> None:
    bed.allowed = True
    bed.own.leads_until = bed.clock.monotonic() + 10
    bed.say("north")
    await bed.clock.run_for(0.1)
    former = bed.own.published_head
    assert former is not None
    bed.journal.fail(JournalError("no room", code="journal_full"))
    bed.say("south")
    await bed.clock.settle()
    assert bed.publisher.failing is not None
    bed.clock.advance(0.5)
    bed.replica.stand_by("lease_lost", bed.clock.monotonic())
    performed = len(bed.performed)
    await bed.clock.run_for(5)
    assert bed.publisher.failing is None
    assert bed.publisher.heads == len(bed.announced) == 1
    assert len(bed.performed) == performed
    held = bed.replica.remotes[Origin("fjord")].head
    assert held is not None
    assert held.version == former.version


async def test_a_term_that_is_over_by_the_clock_alone_sends_nothing_either(bed: Bed) -> None:
    bed.allowed = True
    bed.own.leads_until = bed.clock.monotonic() + 10
    bed.journal.fail(JournalError("no room", code="journal_full"))
    bed.say("north")
    await bed.clock.settle()
    assert bed.own.sealing
    await bed.clock.run_for(0.5)
    bed.own.leads_until = bed.clock.monotonic()
    await bed.clock.run_for(5)
    assert bed.publisher.heads == 0
    assert bed.announced == []
    assert not bed.own.leading
