"""No step takes more work in a large set than in a small one (property 44), counted in calls.

A call is what the interpreter reports to a profiler, Python's own functions and those in C: the
same number on every machine, however busy.  Single calls that walk a whole table in C (a dictionary
that grows) are not seen by it; ``bench/stall.py`` measures what they take.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from clusters.model import Endpoint, Port, ServiceKey
from crdt import Head, Origin, OriginSet, Version
from crdt.entries import ADD, NIL, REMOVE
from replicator.collection import Acknowledged, new_floor
from replicator.messages import Record, Transfer
from replicator.outflow import CHUNK_BYTES
from replicator.projection import endpoint_element, endpoint_value
from replicator.remote_origin import SLICE, Outcome, RemoteOrigin
from replicator.telling import Telling
from tests.support.signers import FakeSigner, FakeVerifier

FJORD = Origin("fjord")
SIGNER = FakeSigner("fjord", "1")
RECORD = Record(FJORD, SIGNER.key_id, SIGNER.chain)
SMALL, LARGE = 1200, 6000
AN_ENTRY = 180
"""Calls for each entry of a chunk, at most; a chunk has some 500."""
A_SLICE = 26 * SLICE
"""Calls of a commit, at most: for what it tells at once.  The large set is three slices."""
T = TypeVar("T")


def calls(work: Callable[[], T]) -> tuple[int, T]:
    """How many functions ``work`` calls, and what it returns."""
    counted = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    former = sys.getprofile()
    sys.setprofile(count)
    try:
        result = work()
    finally:
        sys.setprofile(former)
    return counted, result


def said(number: int, turn: int) -> tuple[bytes, int, bytes]:
    """Element, op and value of an endpoint; in turn 0 it is gone."""
    row = Endpoint(f"10.{number >> 8}.{number & 255}.1", (Port("http", 80),), ready=turn == 1)
    element = endpoint_element("fjord", ServiceKey("shop", f"cart-{number // 20}"), row)
    return (element, ADD, endpoint_value(row)) if turn else (element, REMOVE, NIL)


class Taking:
    """An owner, and a replica of whose steps the longest are kept, in calls."""

    def __init__(self, count: int) -> None:
        self.owner, self.stamp = OriginSet(), 0
        self.remote = RemoteOrigin(FJORD)
        self.telling = Telling({FJORD: self.remote})
        self.longest: dict[str, int] = {}
        self.entries = 0
        """Of the longest chunk."""
        self.say(range(count), 1)

    def say(self, numbers: range, turn: int, floor: int = 0) -> None:
        """The owner's next head."""
        entries = []
        for number in numbers:
            self.stamp += 1
            entries.append((said(number, turn)[0], self.stamp, *said(number, turn)[1:]))
        self.stamp += 1
        floor = max(floor, self.owner.floor)
        self.owner.advance(entries, version=Version(1, self.stamp), floor=floor)

    def step(self, name: str, work: Callable[[], T]) -> T:
        """One step of the event loop."""
        counted, result = calls(work)
        self.longest[name] = max(self.longest.get(name, 0), counted)
        return result

    def head(self) -> Head:
        """The owner's present position, signed."""
        at, owner = self.stamp, self.owner
        state = (at, owner.floor, len(owner), owner.root(), at, at)
        head = Head(FJORD, 1, None, *state, SIGNER.key_id)
        return head.signed(SIGNER.sign(head.canonical()))

    def commit(self, chunk: Transfer) -> Outcome:
        """Take one chunk."""
        return self.remote.take(chunk, FakeVerifier(), RECORD).outcome

    def take(self, name: str, *, snapshot: bool) -> None:
        """All that is new, chunk by chunk, and all of it told."""
        after = 0 if snapshot else self.remote.version.stamp
        complete = False
        while not complete:
            entries, to, complete = self.owner.since(after, CHUNK_BYTES)
            self.entries = max(self.entries, len(entries))
            chunk = Transfer(FJORD, 1, snapshot, after, to, tuple(entries), None)
            self.step(name, lambda c=chunk: self.commit(c))  # type: ignore[misc]
            after = to
        last = Transfer(FJORD, 1, snapshot, after, after, (), self.head())
        outcome = self.step(f"{name}, its commit", lambda: self.commit(last))
        assert outcome is Outcome.COMMITTED
        self.telling.committed(self.remote)
        while self.telling.has_more:
            self.step("tell", self.telling.more)
        assert self.remote.elements.root() == self.owner.root()

    def live(self, count: int) -> None:
        """Bootstrap, a long heal, many removes and their collection, and a snapshot again."""
        self.take("bootstrap", snapshot=True)
        some = range(0, count, 3)
        self.say(some, 2)
        self.take("heal", snapshot=False)
        self.say(some, 0)
        self.take("remove", snapshot=False)
        while self.owner.tombstone_count:
            everybody = [Acknowledged(self.owner.version, 0.0)]
            floor = new_floor(self.owner, everybody, 0.0)
            assert floor is not None
            self.step("owner", lambda f=floor: self.say(range(0), 0, f))  # type: ignore[misc]
            self.take("collect", snapshot=False)
        self.remote.distrust = True
        self.say(range(0), 0)
        self.take("again", snapshot=True)


def test_no_step_takes_more_work_in_a_larger_set() -> None:
    small, large = Taking(SMALL), Taking(LARGE)
    small.live(SMALL)
    large.live(LARGE)
    most = AN_ENTRY * large.entries
    assert large.entries < 1000
    assert large.longest.keys() - small.longest.keys() == {"tell"}
    for name, counted in large.longest.items():
        assert counted <= most, name
        if name.endswith("commit"):
            assert counted <= A_SLICE, name
