"""(g) The longest that one step holds the event loop, with a set of a million elements.

``python -m bench --only g``.  A receiver without a network: frames of a real owner's set are read,
checked, staged and committed, told of and stored in a real journal, while a watch looks at how late
the loop calls it.  CPU is that of the loop's thread in one step, so that a busy machine tells
little; ``late`` is what an agent's beats would feel, with all that the thread of the journal takes
of the interpreter, but without the time that the loop's thread waited for a core.

- ``bootstrap``: a snapshot into an empty set.
- ``heal``: a delta of a tenth of the elements.
- ``remove``: a delta of as many removes, and ``collect``: the heads whose floors drop them.
- ``again``: a snapshot that replaces the whole set by the same.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from threading import get_native_id
from time import monotonic, thread_time
from typing import Any, TypeVar

from bench.crdt import FIRST_STAMP, TICK_NS
from clusters.model import Endpoint, Port, ServiceKey
from crdt import Head, Origin, OriginSet, Version
from crdt.entries import ADD, NIL, REMOVE
from replicator.cli.agent import COLLECT_AFTER
from replicator.codec import decode, encode_head, encode_packed, encode_record
from replicator.collection import Acknowledged, new_floor
from replicator.effects import Store
from replicator.journal import Journal
from replicator.kinds import check_entry
from replicator.messages import Record, Transfer
from replicator.outflow import CHUNK_BYTES
from replicator.projection import endpoint_element, endpoint_value
from replicator.recorder import Recorder
from replicator.remote_origin import Outcome, RemoteOrigin
from replicator.system_clock import SystemClock
from replicator.telling import Telling

_ORIGIN = Origin("us-east-1")
_RECORD = Record(_ORIGIN, b"key", (b"leaf",))
_TICK_SECONDS = 0.001
T = TypeVar("T")


def _endpoint(number: int, turn: int) -> tuple[bytes, bytes]:
    """Element and value of one of many endpoints, twenty to a service."""
    row = Endpoint(
        f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
        (Port("http", 8080),),
        ready=turn % 2 == 1,
        zone=f"us-east-1{'abc'[number % 3]}",
        node=f"node-{number % 977:05d}",
        pod=f"checkout-{number:06x}",
    )
    key = ServiceKey("storefront", f"checkout-{number // 20:06d}")
    return endpoint_element(_ORIGIN.cluster, key, row), endpoint_value(row)


def _said(numbers: Iterable[int], turn: int) -> Iterator[tuple[bytes, int, bytes]]:
    """What an owner says of endpoints: they are there, or in turn 0 that they are gone."""
    for number in numbers:
        key, content = _endpoint(number, turn)
        yield (key, ADD, content) if turn else (key, REMOVE, NIL)


class _Believer:
    """Verifies nothing: signatures are one a head, not one an element."""

    def verify(self, head: Head, record: Record) -> None:
        """Take it."""


class _Owner:
    """Whose set is received."""

    def __init__(self, count: int) -> None:
        self.elements = OriginSet()
        self.stamp = FIRST_STAMP
        self.publish(_said(range(count), 1))

    def publish(self, said: Iterable[tuple[bytes, int, bytes]], floor: int = 0) -> None:
        """The next head."""
        entries = []
        for key, op, content in said:
            self.stamp += TICK_NS
            entries.append((key, self.stamp, op, content))
        self.stamp += TICK_NS
        floor = max(floor, self.elements.floor)
        self.elements.advance(entries, version=Version(1, self.stamp), floor=floor)

    def collected(self) -> Iterator[bytes]:
        """The heads by which all tombstones go, when everybody has acknowledged them."""
        while self.elements.tombstone_count:
            acknowledged = Acknowledged(self.elements.version, 0.0)
            floor = new_floor(self.elements, [acknowledged], 0.0)
            assert floor is not None  # noqa: S101 - there are tombstones
            before = self.elements.version.stamp
            self.publish((), floor)
            yield from self.frames(before, snapshot=False)

    def head(self) -> Head:
        """The present position."""
        elements = self.elements
        return Head(
            *(_ORIGIN, 1, None, elements.version.stamp, elements.floor, len(elements)),
            *(elements.root(), self.stamp, self.stamp, b"key"),
        )

    def frames(self, after: int, *, snapshot: bool) -> Iterator[bytes]:
        """The transfer from ``after`` to the present head."""
        complete = False
        while not complete:
            entries, to, complete = self.elements.since(after, CHUNK_BYTES)
            head = self.head() if complete else None
            yield encode_packed(Transfer(_ORIGIN, 1, snapshot, after, to, tuple(entries), head))
            after = to


def _waited() -> float:
    """Seconds that this thread could run and got no core, by the kernel's count."""
    path = Path(f"/proc/self/task/{get_native_id()}/schedstat")
    return int(path.read_text(encoding="ascii").split()[1]) * 1e-9


class Watch:
    """The longest steps of one phase."""

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}
        self.late = 0.0
        self.counts: dict[str, int] = {}

    def step(self, name: str, work: Callable[[], T]) -> T:
        """Do one step."""
        began = thread_time()
        result = work()
        spent = (thread_time() - began) * 1e3
        self.steps[name] = max(self.steps.get(name, 0.0), spent)
        self.counts[name] = self.counts.get(name, 0) + 1
        return result

    async def look(self) -> None:
        """See for ever how late the loop is, without the time that it waited for a core."""
        while True:
            began, waited = monotonic(), _waited()
            await asyncio.sleep(_TICK_SECONDS)
            late = monotonic() - began - _TICK_SECONDS - (_waited() - waited)
            self.late = max(self.late, late * 1e3)

    def document(self) -> dict[str, Any]:
        """What was seen, in milliseconds."""
        return {
            "cpu_ms": {name: round(spent, 1) for name, spent in self.steps.items()},
            "steps": self.counts,
            "longest_cpu_ms": round(max(self.steps.values()), 1),
            "late_ms": round(self.late, 1),
        }


class Receiver:
    """One origin as an agent takes it, without links."""

    def __init__(self, journal: Journal) -> None:
        self.remote = RemoteOrigin(_ORIGIN)
        self.telling = Telling({_ORIGIN: self.remote})
        self.recorder = Recorder(journal, {_ORIGIN: self.remote}, SystemClock())

    def take(self, frame: bytes) -> Outcome:
        """As the replica does: read, check, stage or commit."""
        chunk = decode(frame)
        assert isinstance(chunk, Transfer)  # noqa: S101 - the owner sends nothing else
        for key, _, op, content in chunk.entries:
            check_entry(_ORIGIN.cluster, key, op, content)
        taken = self.remote.take(chunk, _Believer(), _RECORD)
        head = self.remote.head
        if taken.outcome is Outcome.COMMITTED and head is not None:
            packed = encode_head(head), encode_record(_RECORD)
            store = Store(_ORIGIN, *packed, taken.entries, head.floor, replace=taken.replaced)
            self.recorder.keep(store)
            self.telling.committed(self.remote)
        return taken.outcome

    async def receive(self, frames: Iterator[bytes]) -> dict[str, Any]:
        """One transfer to its end, told and stored."""
        watch, outcome = Watch(), Outcome.STAGED
        looking = asyncio.create_task(watch.look())
        for frame in frames:
            await asyncio.sleep(0)
            outcome = watch.step("chunk", partial(self.take, frame))
            await asyncio.sleep(0)
        while self.telling.has_more:
            watch.step("tell", self.telling.more)
            await asyncio.sleep(0)
        began = monotonic()
        await self.recorder.flush()
        looking.cancel()
        if outcome is not Outcome.COMMITTED:
            message = f"the transfer ended as {outcome.value}"
            raise RuntimeError(message)
        return watch.document() | {"stored_seconds": round(monotonic() - began, 1)}


async def _phases(count: int, folder: Path) -> dict[str, Any]:
    owner, some = _Owner(count), range(0, count, 10)
    found: dict[str, Any] = {}
    journal = await Journal.open(folder)
    receiver = Receiver(journal)

    async def phase(name: str, *, snapshot: bool) -> None:
        after = 0 if snapshot else receiver.remote.version.stamp
        frames = list(owner.frames(after, snapshot=snapshot))
        gc.collect()
        found[name] = await receiver.receive(iter(frames))

    await phase("bootstrap", snapshot=True)
    owner.publish(_said(some, 2))
    await phase("heal", snapshot=False)
    owner.publish(_said(some, 0))
    await phase("remove", snapshot=False)
    found["collect"] = await receiver.receive(owner.collected())
    receiver.remote.distrust = True
    owner.stamp += TICK_NS
    owner.publish(())
    await phase("again", snapshot=True)
    await journal.close()
    return found


def measure(count: int) -> dict[str, Any]:
    """The longest steps of each phase."""
    gc.set_threshold(*COLLECT_AFTER)
    with tempfile.TemporaryDirectory(prefix="replicator-bench-") as folder:
        found = asyncio.run(_phases(count, Path(folder)))
    longest = max(phase["longest_cpu_ms"] for phase in found.values())
    late = max(phase["late_ms"] for phase in found.values())
    return {"elements": count, "phases": found, "longest_cpu_ms": longest, "longest_late_ms": late}
