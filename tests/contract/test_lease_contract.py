"""What every lease does: in memory, in a folder, and as an object of Kubernetes over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import pytest

from clusters.errors import LeaseConflictError
from clusters.lease import LeaseClaim, LeaseRecord, LeaseStore
from tests.contract.lease_harness import file_lease, kubernetes_lease, memory_lease


class Harness(Protocol):
    """A lease that does not exist yet."""

    @property
    def store(self) -> LeaseStore: ...
    def other(self) -> LeaseStore: ...
    def delete(self) -> None: ...


Make = Callable[[], AbstractAsyncContextManager[Harness]]


@pytest.fixture(params=[memory_lease, file_lease, kubernetes_lease])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    make: Make = request.param
    async with make() as harness:
        yield harness


def claim(holder: str = "one", transitions: int = 1, duration: float = 15.0) -> LeaseClaim:
    return LeaseClaim(holder, transitions, duration)


def said(record: LeaseRecord | None) -> LeaseClaim | None:
    """What a record says, without its marks."""
    if record is None:
        return None
    return LeaseClaim(record.holder, record.transitions, record.duration)


async def test_before_the_first_write_there_is_none(stage: Harness) -> None:
    assert await stage.store.read() is None
    assert await stage.other().read() is None


async def test_what_is_written_is_read_by_everybody(stage: Harness) -> None:
    written = await stage.store.write(claim("one", 7), None)
    assert said(written) == claim("one", 7)
    assert await stage.store.read() == written
    assert await stage.other().read() == written


async def test_reading_changes_nothing(stage: Harness) -> None:
    written = await stage.store.write(claim(), None)
    for _ in range(3):
        assert await stage.other().read() == written


async def test_every_renewal_shows_although_nothing_else_changes(stage: Harness) -> None:
    record = await stage.store.write(claim(), None)
    marks, versions = {record.renewals}, {record.version}
    for _ in range(5):
        record = await stage.store.write(claim(), record)
        marks.add(record.renewals)
        versions.add(record.version)
        assert await stage.other().read() == record
    assert len(marks) == len(versions) == 6


async def test_of_two_who_make_it_one_succeeds(stage: Harness) -> None:
    made = await stage.store.write(claim("one"), None)
    with pytest.raises(LeaseConflictError) as caught:
        await stage.other().write(claim("two", 2), None)
    assert caught.value.code == "lease_conflict"
    assert await stage.store.read() == made


async def test_a_write_after_anything_but_the_present_record_changes_nothing(
    stage: Harness,
) -> None:
    first = await stage.store.write(claim("one", 1), None)
    second = await stage.other().write(claim("two", 2), first)
    for late in (claim("one", 1), claim("one", 3), claim("", 1)):
        with pytest.raises(LeaseConflictError):
            await stage.store.write(late, first)
    assert await stage.store.read() == second


async def test_after_a_conflict_one_who_reads_again_may_write(stage: Harness) -> None:
    first = await stage.store.write(claim("one", 1), None)
    await stage.other().write(claim("two", 2), first)
    with pytest.raises(LeaseConflictError):
        await stage.store.write(claim("one", 3), first)
    taken = await stage.store.write(claim("one", 3), await stage.store.read())
    assert said(await stage.other().read()) == said(taken) == claim("one", 3)


async def test_it_is_given_back_and_taken_under_any_higher_number(stage: Harness) -> None:
    held = await stage.store.write(claim("one", 4), None)
    released = await stage.store.write(claim("", 4, 1.0), held)
    assert said(await stage.other().read()) == claim("", 4, 1.0)
    taken = await stage.other().write(claim("two", 1_000_000), released)
    assert said(taken) == said(await stage.store.read()) == claim("two", 1_000_000)


async def test_one_that_was_deleted_is_made_again_and_never_renewed(stage: Harness) -> None:
    held = await stage.store.write(claim("one", 4), None)
    stage.delete()
    assert await stage.other().read() is None
    with pytest.raises(LeaseConflictError):
        await stage.store.write(claim("one", 4), held)
    assert await stage.store.read() is None
    made = await stage.other().write(claim("two", 5), None)
    with pytest.raises(LeaseConflictError):
        await stage.store.write(claim("one", 4), held)
    assert await stage.store.read() == made


async def test_of_many_at_once_exactly_one_wins_every_round(stage: Harness) -> None:
    stores = [stage.other() for _ in range(6)]
    record: LeaseRecord | None = None
    for transitions in range(1, 6):
        outcomes = await asyncio.gather(
            *(
                store.write(claim(f"agent-{number}", transitions), record)
                for number, store in enumerate(stores)
            ),
            return_exceptions=True,
        )
        (winner,) = (one for one in outcomes if isinstance(one, LeaseRecord))
        assert sum(isinstance(one, LeaseConflictError) for one in outcomes) == 5
        record = await stage.store.read()
        assert record == winner
