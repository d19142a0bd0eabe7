"""The shell around the election: what it makes of a store that answers, fails or never answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from clusters.errors import ClusterUnavailableError
from clusters.lease import LeaseClaim, LeaseRecord
from clusters.lease_memory import MemoryLease
from crdt import Origin, OriginSet, StampClock
from replicator.effects import Effect
from replicator.election import Elector
from replicator.handshake import Self
from replicator.leadership import Leadership
from replicator.own_origin import OwnOrigin
from replicator.replica import Replica
from replicator.siblings import reconciled
from tests.support.clock import FakeClock
from tests.support.signers import FakeSigner, FakeVerifier


class Store(MemoryLease):
    """A lease that may hang, fail, or be broken."""

    def __init__(self) -> None:
        super().__init__()
        self.trouble: Callable[[], Coroutine[Any, Any, None]] | None = None

    async def read(self) -> LeaseRecord | None:
        if self.trouble is not None:
            await self.trouble()
        return await super().read()

    async def write(self, claim: LeaseClaim, after: LeaseRecord | None) -> LeaseRecord:
        if self.trouble is not None:
            await self.trouble()
        return await super().write(claim, after)


async def hang() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise ClusterUnavailableError("no API server", code="api_unreachable")


async def break_down() -> None:
    raise ZeroDivisionError


class Bed:
    """One agent's leadership."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = Store()
        signer = FakeSigner("fjord")
        own = OwnOrigin(Origin("fjord"), signer, epoch=1, clock=StampClock(), elements=OriginSet())
        me = Self("set", "fjord", "one", "uid", "test", leased=True)
        self.replica = Replica(me, own, FakeVerifier(), reconciled(own, [], leased=True))
        self.performed: list[Effect] = []
        self.terms = 0
        self.may_begin = True
        self.leadership = Leadership(
            self.store,
            Elector("one"),
            self.replica,
            self.clock,
            self.performed.extend,
            lambda: self.may_begin,
            self._began,
        )
        self.task = asyncio.create_task(self.leadership.run())

    def _began(self) -> None:
        assert self.replica.own.leading
        self.terms += 1

    async def run_for(self, seconds: float) -> None:
        """As the agent does, which settles ten times a second."""
        for _ in range(round(seconds * 10)):
            await self.clock.run_for(0.1)
            self.leadership.settle()

    @property
    def leads(self) -> bool:
        return self.replica.siblings.leads(self.clock.monotonic())


@pytest.fixture
async def bed() -> AsyncIterator[Bed]:
    made = Bed()
    yield made
    made.task.cancel()
    await asyncio.gather(made.task, return_exceptions=True)


async def test_whoever_is_alone_leads_at_once_and_begins_one_term(bed: Bed) -> None:
    await bed.run_for(0.2)
    assert bed.leads
    await bed.run_for(60)
    assert bed.leads
    assert bed.terms == 1
    assert bed.leadership.holder == "one"


async def test_no_term_begins_before_it_may(bed: Bed) -> None:
    bed.may_begin = False
    await bed.run_for(30)
    assert bed.leadership.holder == "one", "the lease is taken and kept"
    assert not bed.leads
    bed.may_begin = True
    await bed.run_for(0.1)
    assert bed.leads


@pytest.mark.parametrize(("trouble", "code"), [(hang, "lease_slow"), (fail, "api_unreachable")])
async def test_without_the_lease_it_stops_within_10_s_and_says_why(
    bed: Bed, trouble: Callable[[], Coroutine[Any, Any, None]], code: str
) -> None:
    await bed.run_for(5)
    bed.store.trouble = trouble
    await bed.run_for(8)
    assert bed.leads
    assert bed.leadership.failing is not None
    assert bed.leadership.failing.code == code
    await bed.run_for(2)
    assert not bed.leads
    assert not bed.replica.own.leading
    await bed.run_for(30)
    assert not bed.leads
    bed.store.trouble = None
    await bed.run_for(5)
    assert bed.leads
    assert bed.leadership.failing is None
    assert bed.terms == 2


async def test_what_no_store_may_raise_ends_the_agent_rather_than_be_hidden(bed: Bed) -> None:
    bed.store.trouble = break_down
    await bed.clock.run_for(5)
    with pytest.raises(ZeroDivisionError):
        await bed.task


async def test_a_stop_gives_the_lease_back_and_ends(bed: Bed) -> None:
    await bed.run_for(3)
    await bed.leadership.release(1.0)
    await bed.task
    record = bed.store.look()
    assert record is not None
    assert record.holder == ""
    assert not bed.replica.own.leading
    bed.leadership.settle()
    assert not bed.leads


async def test_a_stop_does_not_wait_for_a_lease_that_hangs(bed: Bed) -> None:
    await bed.run_for(3)
    bed.store.trouble = hang
    stopping = asyncio.create_task(bed.leadership.release(1.0))
    await bed.clock.run_for(1.1)
    await asyncio.wait_for(stopping, 1)
    assert not bed.replica.own.leading


async def test_an_epoch_that_was_met_is_exceeded(bed: Bed) -> None:
    await bed.run_for(3)
    epoch = bed.replica.own.epoch
    bed.leadership.claim(epoch + 5)
    await bed.run_for(1)
    assert bed.leads
    assert bed.replica.own.epoch == epoch + 6
    assert bed.terms == 1, "it led all the time"
