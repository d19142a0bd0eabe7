"""What the ``crdt`` package costs alone: no network, no disk, no signatures.

``python -m bench.crdt`` prints one JSON document: changes per second through an owner's ``advance``
and a replica's verified ``commit`` (batches of 100, one bulk delta, one snapshot), entries per
second out of ``since``, the cost of a lone change with its root, and memory per element (in
processes of their own).  Times are CPU seconds of this one thread, so that a busy machine tells
little.  Every figure carries its raw repetitions; nothing here is a test.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import process_time

from crdt import Entry, Head, Origin, OriginSet, Staging, Version, pack

_CHUNK_BYTES = 256 * 1024
_BATCH = 100
FIRST_STAMP = 1_764_655_200_000_000_000
TICK_NS = 1_000_003

Slice = tuple[int, int, list[Entry]]
"""A chunk: (start, to, entries)."""


def element(number: int) -> bytes:
    """A realistic endpoint key, about 60 bytes."""
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    service = f"checkout-{number // 20:06d}"
    return pack([1, "us-east-1", "storefront", service, address, [["http", 8080, "TCP"]]])


def value(number: int, turn: int) -> bytes:
    """A realistic endpoint value, about 30 bytes, different in every turn."""
    return pack(
        [7 if turn % 2 else 5, f"us-east-1{'abc'[number % 3]}", f"node-{turn % 977:05d}", ""]
    )


class Owner:
    """An origin that publishes heads over seeded changes."""

    def __init__(self, count: int) -> None:
        """``count`` elements in one first batch."""
        self.elements = OriginSet()
        self.count = count
        self.dice = random.Random(count)
        self.stamp = FIRST_STAMP
        self.turn = 0
        self.publish(self.batch(range(count)))

    def batch(self, numbers: Sequence[int]) -> list[Entry]:
        """Adds of these elements with fresh stamps and new values."""
        self.turn += 1
        entries = []
        for number in numbers:
            self.stamp += TICK_NS
            entries.append((element(number), self.stamp, 0, value(number, self.turn)))
        return entries

    def some(self, size: int) -> list[Entry]:
        """Changes of ``size`` different elements drawn by the seed."""
        return self.batch(self.dice.sample(range(self.count), size))

    def publish(self, entries: Sequence[Entry]) -> Head:
        """Advance to the next head."""
        version = Version(1, self.stamp)
        self.elements.advance(entries, version=version, floor=0)
        return Head(
            origin=Origin("us-east-1"),
            epoch=1,
            base=None,
            stamp=self.stamp,
            floor=0,
            count=len(self.elements),
            root=self.elements.root(),
            issued_at=self.stamp,
            observed_at=self.stamp,
            key_id=b"key",
        )

    def replica(self) -> OriginSet:
        """Another copy at the present head."""
        elements = self.elements
        return OriginSet.restored(elements.version, elements.floor, elements.entries())


def chunks(source: OriginSet, after: int) -> Iterator[Slice]:
    """The transfer from ``after`` to the source's head."""
    complete = False
    while not complete:
        entries, to, complete = source.since(after, _CHUNK_BYTES)
        yield after, to, entries
        after = to


def receive(replica: OriginSet, transfer: Sequence[Slice], head: Head) -> None:
    """Stage a transfer and commit it; one from nothing is a snapshot."""
    start = transfer[0][0]
    staging = Staging(epoch=1, start=start, replaces=start == 0)
    for start, to, entries in transfer:
        staging.add(start, to, entries)
    replica.commit(staging, head)


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of ``work`` with the collector run before."""
    gc.collect()
    started = process_time()
    work()
    return process_time() - started


def rate(amount: int, durations: Sequence[float]) -> dict[str, object]:
    """``amount`` of things per CPU second, from repetitions."""
    return {
        "per_second": round(amount / median(durations)),
        "amount": amount,
        "seconds": [round(duration, 6) for duration in durations],
    }


def batched(count: int, repeats: int) -> dict[str, object]:
    """Owner and replica over batches of 100 changes among ``count`` elements."""
    owner = Owner(count)
    replica = owner.replica()
    batches = count // _BATCH // 5
    advancing, cutting, committing = [], [], []
    for _ in range(repeats):
        pending = [owner.some(_BATCH) for _ in range(batches)]
        stamps = [batch[-1][1] for batch in pending]
        transfers: list[tuple[list[Slice], Head]] = []
        spent = [0.0, 0.0]
        for batch, stamp in zip(pending, stamps, strict=True):
            before = owner.elements.version.stamp
            owner.stamp = stamp
            started = process_time()
            head = owner.publish(batch)
            published = process_time()
            transfer = list(chunks(owner.elements, before))
            spent[0] += published - started
            spent[1] += process_time() - published
            transfers.append((transfer, head))
        advancing.append(spent[0])
        cutting.append(spent[1])

        started = process_time()
        for transfer, head in transfers:
            receive(replica, transfer, head)
        committing.append(process_time() - started)
    return {
        "advance_batches_of_100": rate(batches * _BATCH, advancing),
        "since_batches_of_100": rate(batches * _BATCH, cutting),
        "commit_batches_of_100": rate(batches * _BATCH, committing),
    }


@dataclass(frozen=True, slots=True)
class _EntryObject:
    """What an entry would be by the house rule for data."""

    element: bytes
    stamp: int
    op: int
    value: bytes


def tuples(count: int, repeats: int) -> dict[str, object]:
    """Making entries and reading their stamps: the plain tuples used against frozen objects."""
    key, content = element(1), value(1, 1)

    def plain() -> int:
        made = [(key, stamp, 0, content) for stamp in range(count)]
        return sum(entry[1] for entry in made)

    def objects() -> int:
        made = [_EntryObject(key, stamp, 0, content) for stamp in range(count)]
        return sum(entry.stamp for entry in made)

    return {
        "entries_as_tuples": rate(count, [seconds(plain) for _ in range(repeats)]),
        "entries_as_objects": rate(count, [seconds(objects) for _ in range(repeats)]),
    }


def bulk(count: int, repeats: int) -> dict[str, object]:
    """Everything at once: first filling, a delta over every element, a snapshot."""
    spent: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[..., object], *given: object) -> None:
        spent.setdefault(name, []).append(seconds(lambda: work(*given)))

    for _ in range(repeats):
        entries = Owner(0).batch(range(count))
        timed("advance_bulk_into_empty", advanced, OriginSet(), entries)
        owner = Owner(count)
        replica = owner.replica()
        before = owner.elements.version.stamp
        changes = owner.batch(range(count))
        timed("advance_bulk_over_all", advanced, owner.elements, changes)
        head = owner.publish([])
        transfer: list[Slice] = []
        timed("since_bulk", transfer.extend, chunks(owner.elements, before))
        timed("commit_bulk_delta", receive, replica, transfer, head)
        whole = list(chunks(owner.elements, 0))
        timed("commit_snapshot_into_empty", receive, OriginSet(), whole, head)
    return {name: rate(count, durations) for name, durations in spent.items()}


def advanced(elements: OriginSet, entries: Sequence[Entry]) -> bytes:
    """An owner's step with its root."""
    elements.advance(entries, version=Version(1, entries[-1][1]), floor=0)
    return elements.root()


def lone(count: int, repeats: int) -> dict[str, object]:
    """One change and the root after it, among ``count`` elements: percentiles in microseconds."""
    owner = Owner(count)
    replica = owner.replica()
    advancing, committing = [], []
    for _ in range(repeats * 500):
        before = owner.elements.version.stamp
        batch = owner.some(1)
        started = process_time()
        head = owner.publish(batch)
        advancing.append((process_time() - started) * 1e6)
        transfer = list(chunks(owner.elements, before))
        started = process_time()
        receive(replica, transfer, head)
        committing.append((process_time() - started) * 1e6)
    return {"advance_and_root_us": spread(advancing), "commit_us": spread(committing)}


def spread(samples: Sequence[float]) -> dict[str, float]:
    """Percentiles of samples."""
    ordered = sorted(samples)
    at = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    found = {name: round(ordered[int(part * (len(ordered) - 1))], 1) for name, part in at.items()}
    return {**found, "max": round(ordered[-1], 1), "samples": len(ordered)}


def resident() -> int:
    """Resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def filled(count: int) -> OriginSet:
    """A replica of ``count`` elements, received in chunks as over a wire."""
    elements = OriginSet()
    stamp = FIRST_STAMP
    for first in range(0, count, _BATCH):
        batch = []
        for number in range(first, min(first + _BATCH, count)):
            stamp += TICK_NS
            batch.append((element(number), stamp, 0, value(number, number)))
        elements.advance(batch, version=Version(1, stamp), floor=0)
        elements.root()
    return elements


def weigh(count: int, how: str) -> int:
    """Bytes that :func:`filled` takes."""
    Owner(_BATCH).elements.root()
    gc.collect()
    measure = resident
    if how == "tracemalloc":
        tracemalloc.start()
        measure = lambda: tracemalloc.get_traced_memory()[0]  # noqa: E731 - one line, one use
    before = measure()
    elements = filled(count)
    gc.collect()
    taken = measure() - before
    if len(elements) != count:
        message = "the set weighed is not the set meant"
        raise RuntimeError(message)
    return taken


def memory(count: int) -> dict[str, object]:
    """Bytes per element by two measures, each in a process of its own."""
    found: dict[str, object] = {
        "key_bytes": len(element(count - 1)),
        "value_bytes": len(value(1, 1)),
    }
    for how in ("tracemalloc", "resident"):
        command = [sys.executable, "-m", "bench.crdt", "--elements", str(count), "--weigh", how]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        taken = int(answer.stdout)
        found[how] = {"bytes_per_element": round(taken / count, 1), "bytes": taken}
    return found


def machine() -> dict[str, object]:
    """Where the figures were taken."""
    model = platform.processor()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load_1m": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def run(count: int, repeats: int) -> dict[str, object]:
    """All figures as one document."""
    return {
        "format": "replicator.bench.crdt/1",
        "machine": machine(),
        "elements": count,
        "repeats": repeats,
        **batched(count, repeats),
        **bulk(count, repeats),
        **tuples(count, repeats),
        "lone_change": lone(count, repeats),
        "memory": memory(count),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Print the document; ``--weigh`` is the measuring child's own business."""
    parser = argparse.ArgumentParser(prog="bench.crdt", description=__doc__)
    parser.add_argument("--elements", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--weigh", choices=("tracemalloc", "resident"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.weigh is not None:
        sys.stdout.write(f"{weigh(options.elements, options.weigh)}\n")
        return 0
    document = run(options.elements, options.repeats)
    sys.stdout.write(json.dumps(document, indent=2, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
