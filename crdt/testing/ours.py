"""The types of ``crdt`` as subjects of the kit.

:class:`~crdt.origin_set.OriginSet` is no state-based type by itself, since only its owner changes
it; here each replica owns one and holds one of every other, and a merge is the transfer that a
replica makes of each origin that the other has further: a delta where it can continue, else a
snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from crdt.canonical import pack
from crdt.entries import ADD, NIL, REMOVE, Entry
from crdt.head import Head
from crdt.lww_set import LWWElementSet
from crdt.origin_set import OriginSet
from crdt.staging import Staging
from crdt.stamp import Stamp
from crdt.testing import meanings
from crdt.testing.correct import ELEMENTS
from crdt.testing.subject import At, Crdt, Delta, Did, in_place, operation
from crdt.version_vector import Origin, Version, VersionVector

_PLENTY = 1 << 30
"""A budget of bytes that everything fits into."""


def lww_element_set() -> Crdt[LWWElementSet[str]]:
    """:class:`crdt.LWWElementSet`, with its deltas."""

    def stamp(at: At) -> Stamp:
        return Stamp(at.time, at.replica)

    return Crdt(
        name="crdt.LWWElementSet",
        new=lambda _: LWWElementSet(),
        merge=lambda a, b: a.merge(b),
        operations={
            "add": operation(in_place(lambda s, at, e: s.add(e, stamp(at))), ELEMENTS),
            "remove": operation(in_place(lambda s, at, e: s.remove(e, stamp(at))), ELEMENTS),
        },
        view=frozenset,
        equal=lambda a, b: a == b,
        delta=Delta(make=lambda mine, known: mine.delta(known), apply=lambda a, b: a.merge(b)),
        meaning=meanings.last_stated,
    )


def version_vector() -> Crdt[VersionVector]:
    """:class:`crdt.VersionVector`, each replica moving its own version."""

    def advance(vector: VersionVector, at: At) -> VersionVector:
        return vector.merge(VersionVector({Origin(at.replica): Version(1, at.time)}))

    def advanced(done: Sequence[Did]) -> dict[Origin, Version]:
        return {Origin(did.at.replica): Version(1, did.at.time) for did in done}

    return Crdt(
        name="crdt.VersionVector",
        new=lambda _: VersionVector(),
        merge=lambda a, b: a.merge(b),
        operations={"advance": operation(advance)},
        view=dict,
        equal=lambda a, b: a == b,
        order=lambda a, b: b.covers(a),
        meaning=advanced,
    )


@dataclass(slots=True)
class Holding:
    """A replica's sets, one of each origin it knows, and the heads that they stand at."""

    sets: dict[str, OriginSet] = field(default_factory=dict)
    heads: dict[str, Head] = field(default_factory=dict)

    def publish(self, at: At, entries: Sequence[Entry], *, collect: bool = False) -> None:
        """Advance the own set to the time of ``at``; ``collect`` moves the floor up to it."""
        mine = self.sets.setdefault(at.replica, OriginSet())
        floor = at.time if collect else mine.floor
        mine.advance(entries, version=Version(1, at.time), floor=floor)
        self.heads[at.replica] = Head(
            origin=Origin(at.replica),
            epoch=1,
            base=None,
            stamp=at.time,
            floor=floor,
            count=len(mine),
            root=mine.root(),
            issued_at=at.time,
            observed_at=at.time,
            key_id=b"",
        )

    def pull(self, other: Holding) -> None:
        """Take every origin that ``other`` has further."""
        for name, head in sorted(other.heads.items()):
            mine = self.sets.setdefault(name, OriginSet())
            if head.version <= mine.version:
                continue
            replaces = not mine.can_continue(head)
            start = 0 if replaces else mine.version.stamp
            staging = Staging(epoch=head.epoch, start=start, replaces=replaces)
            chunk = other.sets[name].since(start, _PLENTY)
            staging.add(start, chunk.to, chunk.entries)
            mine.commit(staging, head)
            self.heads[name] = head

    def view(self) -> dict[str, frozenset[bytes]]:
        """The live elements of each origin."""
        return {
            name: frozenset(entry[0] for entry in held.entries() if entry[2] == ADD)
            for name, held in self.sets.items()
            if held.live_count
        }

    def roots(self) -> dict[str, tuple[Version, bytes]]:
        """Where each origin stands, and at what."""
        return {name: (held.version, held.root()) for name, held in self.sets.items()}


def _means(done: Sequence[Did]) -> dict[str, frozenset[bytes]]:
    live: dict[str, set[bytes]] = {}
    for did in done:
        held = live.setdefault(did.at.replica, set())
        if did.name == "add":
            held.add(_element(did.arguments[0]))
        elif did.name == "remove":
            held.discard(_element(did.arguments[0]))
    return {name: frozenset(held) for name, held in live.items() if held}


def _element(name: str) -> bytes:
    return pack([1, name])


def _add(holding: Holding, at: At, name: str) -> None:
    holding.publish(at, [(_element(name), at.time, ADD, pack(at.time))])


def _remove(holding: Holding, at: At, name: str) -> None:
    holding.publish(at, [(_element(name), at.time, REMOVE, NIL)])


def origin_sets() -> Crdt[Holding]:
    """:class:`crdt.OriginSet`, one of each replica, with tombstones collected at any time."""
    return Crdt(
        name="crdt.OriginSet",
        new=lambda _: Holding(),
        merge=in_place(Holding.pull),
        operations={
            "add": operation(in_place(_add), ELEMENTS),
            "collect": operation(in_place(lambda held, at: held.publish(at, [], collect=True))),
            "remove": operation(in_place(_remove), ELEMENTS),
        },
        view=Holding.view,
        equal=lambda a, b: a.roots() == b.roots(),
        meaning=_means,
    )
