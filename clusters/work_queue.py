"""A queue of keys to look at, for level-based controllers.

Three sets, as in client-go: **queue** (keys ready to be handed out, in order of arrival), **dirty**
(keys that need work) and **processing** (keys handed out and not yet :meth:`~WorkQueue.done`).

Invariants: a key is never handed out twice at once (queue and processing are disjoint); a key added
while it is being worked on is handed out again afterwards; so no key is ever lost, and a key added
a hundred times waits once.  A failed key comes back after its own back-off (doubling from 5 ms) or
when the token bucket over all retries allows, whichever is later; adding it directly overtakes
both.

Many keys added together (:meth:`~WorkQueue.add_all`: a first sync, a policy that changed) wait in a
lane of their own, so that a lone change does not wait for all of them; of every four keys handed
out one is theirs, so they never wait for ever either.

Waiting is done by whoever calls :meth:`~WorkQueue.get`; the queue has no task of its own.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict, deque
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from clusters.base import Clock
from clusters.errors import ClusterError

K = TypeVar("K", bound=Hashable)

_MANY = 64
"""Keys added together that are more than this wait behind others."""
_SHARE = 4
"""One key in so many that are handed out is one of many, when both kinds wait."""


class QueueClosedError(ClusterError):
    """The queue was shut down and holds nothing more; the worker ends."""

    code = "queue_closed"

    def __init__(self) -> None:
        super().__init__("the work queue was shut down")


@dataclass(frozen=True, slots=True)
class BackOff:
    """How fast failed keys come back."""

    first: float = 0.005
    """Seconds before the first retry of a key; doubled for each further one."""
    cap: float = 1000.0
    """Longest wait of one key in seconds."""
    rate: float = 50.0
    """Retries a second over all keys, in the long run."""
    burst: int = 100
    """Retries over all keys that need not wait for the rate."""

    def __post_init__(self) -> None:
        """Refuse settings under which a key could never come back, or at once."""
        if not 0 < self.first <= self.cap or self.rate <= 0 or self.burst < 1:
            message = f"back-off settings {self} make no sense"
            raise ClusterError(message, cure="choose positive values", code="bad_settings")

    def delay(self, failures: int) -> float:
        """Seconds to wait after ``failures`` earlier failures in a row."""
        doublings = min(failures, 64)
        return float(min(self.first * 2**doublings, self.cap))


class WorkQueue(Generic[K]):
    """See the module's docstring.  One event loop; every method but ``get`` returns at once."""

    def __init__(self, clock: Clock, back_off: BackOff | None = None) -> None:
        """Start empty; waits are measured on ``clock``."""
        self._clock = clock
        self._back_off = back_off or BackOff()
        self._ready: deque[K] = deque()
        self._bulk: OrderedDict[K, None] = OrderedDict()
        """Keys ready, too, that were added with many others; disjoint from ``_ready``."""
        self._turn = 0
        """Keys handed out since the last one that was added with many others."""
        self._dirty: set[K] = set()
        self._processing: set[K] = set()
        self._failures: dict[K, int] = {}
        self._due: dict[K, float] = {}
        """When each delayed key is due; the truth, of which the heap is an index."""
        self._heap: list[tuple[float, int, K]] = []
        self._entries = 0
        self._bucket_free_at = clock.monotonic() - self._back_off.burst / self._back_off.rate
        self._closed = False
        self._waiters: set[asyncio.Future[None]] = set()
        self.retries = 0
        """Retries asked for since the start (``queue_retries_total``)."""

    def __len__(self) -> int:
        """Keys that wait to be handed out, delayed ones included (``queue_depth``)."""
        return len(self._dirty) + len(self._due)

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is being worked on."""
        return not self._dirty and not self._due and not self._processing

    def add(self, key: K) -> None:
        """``key`` needs work now.  After :meth:`shut_down` this does nothing."""
        if self._closed:
            return
        self._due.pop(key, None)
        if key in self._dirty:
            if key in self._bulk:
                del self._bulk[key]
                self._ready.append(key)
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._ready.append(key)
            self._wake()

    def add_all(self, keys: Collection[K]) -> None:
        """All of ``keys`` need work now, in this order; many of them let other keys pass."""
        if len(keys) <= _MANY:
            for key in keys:
                self.add(key)
            return
        for key in keys:
            if self._closed or key in self._dirty:
                continue
            self._due.pop(key, None)
            self._dirty.add(key)
            if key not in self._processing:
                self._bulk[key] = None
        self._wake()

    def retry(self, key: K) -> None:
        """``key`` failed: it needs work again after its back-off.

        A key that waits already, or is about to be handed out again, stays as it is but for the
        count.
        """
        if self._closed:
            return
        self.retries += 1
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if key in self._dirty or key in self._due:
            return
        now = self._clock.monotonic()
        due = max(now + self._back_off.delay(failures), self._token(now))
        self._due[key] = due
        self._entries += 1
        heapq.heappush(self._heap, (due, self._entries, key))
        self._wake()

    def _token(self, now: float) -> float:
        """Take one token of the bucket; returns when it is there."""
        full_since = now - self._back_off.burst / self._back_off.rate
        self._bucket_free_at = max(self._bucket_free_at, full_since) + 1 / self._back_off.rate
        return self._bucket_free_at

    def forget(self, key: K) -> None:
        """``key`` succeeded: its next back-off starts from the beginning."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Wait for a key and hand it out; call :meth:`done` with it afterwards, whatever happened.

        Raises :class:`QueueClosedError` after :meth:`shut_down`, once what was ready is handed out.
        """
        while True:
            self._release_due()
            if self._ready or self._bulk:
                key = self._next()
                self._dirty.discard(key)
                self._processing.add(key)
                return key
            if self._closed:
                raise QueueClosedError
            await self._wait()

    def _next(self) -> K:
        self._turn += 1
        if self._bulk and (not self._ready or self._turn >= _SHARE):
            self._turn = 0
            return self._bulk.popitem(last=False)[0]
        return self._ready.popleft()

    def done(self, key: K) -> None:
        """Work on ``key`` has ended; if it was added meanwhile it is ready again."""
        if key not in self._processing:
            return
        self._processing.remove(key)
        if key in self._dirty:
            self._ready.append(key)
            self._wake()

    def shut_down(self) -> None:
        """Take nothing more; what is ready may still be fetched, what is delayed is dropped."""
        self._closed = True
        self._due.clear()
        self._heap.clear()
        self._wake()

    def _release_due(self) -> None:
        """Make ready what is due; a heap entry counts only if the key is still due then."""
        now = self._clock.monotonic()
        while self._heap:
            due, _, key = self._heap[0]
            if self._due.get(key) != due:
                heapq.heappop(self._heap)
            elif due <= now:
                heapq.heappop(self._heap)
                self.add(key)
            else:
                return

    def _wake(self) -> None:
        """Let every waiting getter look again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _wait(self) -> None:
        """Until something changed or the next delayed key is due."""
        changed = asyncio.get_running_loop().create_future()
        self._waiters.add(changed)
        alarm = None
        try:
            if self._heap:
                delay = self._heap[0][0] - self._clock.monotonic()
                alarm = asyncio.ensure_future(self._clock.sleep(delay))
            waits = {changed} if alarm is None else {changed, alarm}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiters.discard(changed)
            if alarm is not None:
                alarm.cancel()
                await asyncio.gather(alarm, return_exceptions=True)
