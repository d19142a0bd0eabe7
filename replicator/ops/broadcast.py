"""One publisher, many readers, none of whom can slow the publisher or grow its memory.

Each reader has its own bounded queue.  A reader that falls further behind than that loses its
place: its queue is emptied at once and its next step raises :class:`LaggedError`, so it learns that
it missed something instead of reading on across a gap.  Everything runs on one event loop; nothing
is locked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

from replicator.errors import ReplicatorError

T = TypeVar("T")

DEFAULT_LIMIT = 4096


class LaggedError(ReplicatorError):
    """The reader was too slow and missed changes; it should read the state and subscribe again."""

    code = "lagged"


class Subscription(Generic[T]):
    """One reader's place; an async iterator.  Reading from two tasks at once is not supported."""

    def __init__(self, readers: set[Subscription[T]], limit: int) -> None:
        """Join ``readers``; hold at most ``limit`` unread items."""
        self._readers = readers
        self._limit = limit
        self._items: deque[T] = deque()
        self._wake = asyncio.Event()
        self._lagged = False
        readers.add(self)

    def offer(self, item: T) -> None:
        """Queue ``item``, or give this reader up when its queue is full.  Never blocks."""
        if len(self._items) >= self._limit:
            self._lagged = True
            self._items.clear()
            self._readers.discard(self)
        else:
            self._items.append(item)
        self._wake.set()

    def __aiter__(self) -> Subscription[T]:
        return self

    async def __anext__(self) -> T:
        """The next item; raises :class:`LaggedError` once items were missed."""
        while not self._items:
            if self._lagged:
                message = f"this reader fell more than {self._limit} changes behind"
                raise LaggedError(message, cure="read the state again, then watch again")
            if self not in self._readers:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._items.popleft()

    def close(self) -> None:
        """Leave; a pending step ends the iteration."""
        self._readers.discard(self)
        self._items.clear()
        self._wake.set()

    async def aclose(self) -> None:
        """As :meth:`close`, under the name that asynchronous generators have."""
        self.close()


class Broadcast(Generic[T]):
    """Hands each published item to every present subscription."""

    def __init__(self, *, limit: int = DEFAULT_LIMIT) -> None:
        """Let each reader fall at most ``limit`` items behind."""
        self._limit = limit
        self._readers: set[Subscription[T]] = set()

    @property
    def wanted(self) -> bool:
        """Whether anyone reads; a publisher may skip building items when not."""
        return bool(self._readers)

    def publish(self, item: T) -> None:
        """Offer ``item`` to every reader.  Never blocks, never raises."""
        for reader in tuple(self._readers):
            reader.offer(item)

    def subscribe(self) -> Subscription[T]:
        """A reader that gets everything published from now on."""
        return Subscription(self._readers, self._limit)

    def close(self) -> None:
        """End every iteration; what was not read yet is dropped."""
        for reader in tuple(self._readers):
            reader.close()
