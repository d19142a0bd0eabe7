"""A broadcast neither waits for a reader nor lets it miss something unnoticed."""

from __future__ import annotations

import asyncio

import pytest

from replicator.ops.broadcast import Broadcast, LaggedError


async def test_each_reader_gets_what_was_published_after_it_came() -> None:
    news: Broadcast[int] = Broadcast()
    news.publish(0)
    first = news.subscribe()
    news.publish(1)
    second = news.subscribe()
    news.publish(2)
    assert [await anext(first), await anext(first)] == [1, 2]
    assert await anext(second) == 2


async def test_a_waiting_reader_is_woken() -> None:
    news: Broadcast[str] = Broadcast()
    reader = news.subscribe()
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    assert not waiting.done()
    news.publish("now")
    assert await waiting == "now"


async def test_a_reader_beyond_its_limit_is_told_and_holds_nothing() -> None:
    news: Broadcast[int] = Broadcast(limit=3)
    slow, quick = news.subscribe(), news.subscribe()
    for number in range(5):
        news.publish(number)
        assert await anext(quick) == number
    with pytest.raises(LaggedError, match="3 changes behind"):
        await anext(slow)
    with pytest.raises(LaggedError):
        await anext(slow)
    assert news.wanted
    await quick.aclose()
    assert not news.wanted


async def test_leaving_ends_the_iteration_even_while_it_waits() -> None:
    news: Broadcast[int] = Broadcast()
    reader = news.subscribe()

    async def read_all() -> list[int]:
        return [number async for number in reader]

    reading = asyncio.ensure_future(read_all())
    await asyncio.sleep(0)
    await reader.aclose()
    assert await reading == []


async def test_closing_ends_every_reader() -> None:
    news: Broadcast[int] = Broadcast()
    readers = [news.subscribe(), news.subscribe()]
    news.close()
    for reader in readers:
        assert [number async for number in reader] == []
    assert not news.wanted
