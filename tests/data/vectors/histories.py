"""Vectors of transfers: frames in order, and what a receiver makes of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cryptography import x509

from crdt import Base, Entry, Head, Origin, OriginSet, Version, pack
from crdt.entries import ADD, NIL, REMOVE
from replicator import messages as m
from replicator.codec import encode
from replicator.errors import ProtocolError
from replicator.remote_origin import RemoteOrigin
from replicator.signing import TrustStore
from tests.data.vectors.keys import CLUSTERSET, FJORD, ROOT
from tests.data.vectors.notation import Json
from tests.data.vectors.wire import AT

_ORIGIN = Origin("fjord")


def element(number: int) -> bytes:
    """An endpoint of the histories."""
    return pack([1, "fjord", "shop", "cart", f"10.20.1.{number}", None])


def add(number: int, at: int, flags: int = 3) -> Entry:
    """Its add, ``at`` ns after the beginning."""
    return (element(number), AT + at, ADD, pack([flags, None, None, None, None]))


def remove(number: int, at: int) -> Entry:
    """Its remove."""
    return (element(number), AT + at, REMOVE, NIL)


@dataclass
class Owner:
    """The origin: a set, and its heads."""

    elements: OriginSet
    epoch: int = 1
    base: Base | None = None
    issued: int = 0

    def publish(self, *entries: Entry, at: int = 0, floor: int | None = None) -> Head:
        """A batch and its head, at the last entry or ``at`` ns after the beginning."""
        stamp = max(AT + at, *(entry[1] for entry in entries), self.elements.version.stamp)
        floor = self.elements.floor if floor is None else AT + floor
        self.elements.advance(entries, version=Version(self.epoch, stamp), floor=floor)
        return self.head()

    def head(self) -> Head:
        """The present state, signed once more."""
        self.issued += 1
        elements = self.elements
        head = Head(
            origin=_ORIGIN,
            epoch=self.epoch,
            base=self.base,
            stamp=elements.version.stamp,
            floor=elements.floor,
            count=len(elements),
            root=elements.root(),
            issued_at=AT + 1000 + self.issued,
            observed_at=AT,
            key_id=FJORD.key_id,
        )
        return FJORD.signed(head)

    def transfer(self, head: Head, after: int | None = None) -> m.Transfer:
        """All of the present state (or what came after ``after``), with ``head``."""
        start = 0 if after is None else AT + after
        entries = tuple(self.elements.since(start, 1 << 30).entries)
        return m.Transfer(_ORIGIN, self.epoch, after is None, start, head.stamp, entries, head)


def owner(count: int = 3) -> tuple[Owner, Head]:
    """An origin that published ``count`` endpoints."""
    made = Owner(OriginSet())
    return made, made.publish(*(add(number, number) for number in range(1, count + 1)))


def cut(chunk: m.Transfer, at: int) -> list[m.Transfer]:
    """A transfer in two chunks, the first with ``at`` entries."""
    middle = chunk.entries[at - 1][1]
    first = replace(chunk, to=middle, entries=chunk.entries[:at], head=None)
    return [first, replace(chunk, start=middle, entries=chunk.entries[at:])]


def _pieces() -> list[m.Transfer]:
    one, head = owner()
    first, second = cut(one.transfer(head), 2)
    delta = one.transfer(one.publish(remove(1, 10), add(4, 11)), 3)
    return [second, first, first, second, *cut(delta, 1), delta]


def _floors() -> list[m.Transfer]:
    one, head = owner()
    chunks = [one.transfer(head), one.transfer(one.publish(remove(1, 10)), 3)]
    old = add(1, 1)
    chunks.append(one.transfer(one.publish(at=11, floor=10), 10))
    head = one.publish(add(4, 20))
    # Removed and collected meanwhile: an old entry in a new delta is dead (C8).
    late = replace(one.transfer(head, 0), entries=(old, add(4, 20)))
    chunks.append(late)
    one.publish(remove(2, 30))
    head = one.publish(at=31, floor=30)
    return [*chunks, one.transfer(head, 20), one.transfer(head)]


def _forged() -> list[m.Transfer]:
    one, head = owner()
    whole = one.transfer(head)
    swapped = (*whole.entries[:2], (element(9), *whole.entries[2][1:]))
    return [
        replace(whole, entries=whole.entries[:2]),
        replace(whole, entries=swapped),
        replace(whole, head=replace(head, count=2)),
        replace(whole, head=head.signed(bytes(64))),
        replace(whole, snapshot=False),
        whole,
    ]


def _epochs() -> list[m.Transfer]:
    one, head = owner()
    zombie = Owner(OriginSet.restored(one.elements.version, 0, one.elements.entries()), issued=50)
    last = zombie.publish(add(8, 900))
    late, whole = zombie.transfer(last, 3), zombie.transfer(last)
    first, base = one.transfer(head), Base(1, head.stamp, head.root)
    one.epoch, one.base = 4, base
    second = one.transfer(one.publish(add(4, 10)), 3)
    one.epoch, one.base = 5, None
    head = one.publish(add(5, 20))
    return [first, second, late, whole, one.transfer(head, 10), one.transfer(head)]


def _issues() -> list[m.Transfer]:
    one, head = owner()
    whole = one.transfer(head)
    again = m.Transfer(_ORIGIN, 1, False, head.stamp, head.stamp, (), one.head())  # noqa: FBT003
    return [whole, again, again, whole]


def _forks() -> list[m.Transfer]:
    states = []
    for number in (4, 5):
        one, _ = owner()
        states.append(one.transfer(one.publish(add(number, 10))))
    smaller, larger = sorted(states, key=lambda chunk: chunk.head.root if chunk.head else b"")
    alone = [replace(x, snapshot=False, start=x.to, entries=()) for x in (smaller, larger)]
    return [smaller, alone[1], larger, alone[0], smaller]


_HISTORIES = {
    "chunks, a gap, a repeat, a delta, old news": _pieces,
    "floors, an old entry in a new delta, a floor above the replica": _floors,
    "entries and heads that were tampered with": _forged,
    "epochs with and without a base, and a writer of an old one": _epochs,
    "a head issued again": _issues,
    "two states signed for one version": _forks,
}


def _steps(chunks: Sequence[m.Transfer]) -> list[Json]:
    trust = TrustStore([x509.load_der_x509_certificate(ROOT)], CLUSTERSET)
    remote, steps = RemoteOrigin(_ORIGIN), []
    for chunk in chunks:
        try:
            outcome = remote.take(chunk, trust, FJORD.record).outcome.value
        except ProtocolError as error:
            outcome = error.code
        steps.append(
            {
                "hex": encode(chunk).hex(),
                "outcome": outcome,
                "epoch": remote.version.epoch,
                "stamp": str(remote.version.stamp),
                "count": len(remote.elements),
                "root": remote.elements.root().hex(),
            }
        )
    return steps


def histories() -> Json:
    """Transfers and what they lead to."""
    return {
        "about": "protocol.md section 10: frames of one source in order, from nothing committed, "
        "with the record already there; the outcome of each, and the committed state after it",
        "record": {"key_id": FJORD.key_id.hex(), "chain": [FJORD.leaf.hex()]},
        "root_certificate": ROOT.hex(),
        "clusterset": CLUSTERSET,
        "cases": [{"name": name, "steps": _steps(chunks())} for name, chunks in _HISTORIES.items()],
    }
