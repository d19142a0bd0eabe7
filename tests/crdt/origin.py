"""An origin with its whole history, and transfers cut from any copy of it, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from crdt import Base, Change, Entry, Head, Origin, OriginSet, Staging, Version, pack
from crdt.entries import ADD, NIL, REMOVE
from tests.support.reference_model import State, after, live, root

PLENTY = 1 << 40
"""A budget that everything fits into."""


def element(number: int) -> bytes:
    """Key number ``number`` of the cluster fjord."""
    return pack([1, "fjord", "shop", number])


def add(number: int, stamp: int, value: object = 1) -> Entry:
    """An add of :func:`element`."""
    return (element(number), stamp, ADD, pack(value))


def remove(number: int, stamp: int) -> Entry:
    """A remove of :func:`element`."""
    return (element(number), stamp, REMOVE, NIL)


def state_of(elements: OriginSet) -> dict[bytes, tuple[int, int, bytes]]:
    """All entries by element."""
    return {entry[0]: entry[1:] for entry in elements.entries()}


def picture(elements: OriginSet) -> object:
    """Everything that can be seen of a set from outside."""
    return (
        elements.version,
        elements.floor,
        state_of(elements),
        elements.root(),
        len(elements),
        elements.live_count,
        elements.tombstone_count,
        elements.since(-1, PLENTY),
        elements.since(elements.version.stamp // 2, 100),
    )


def changes_between(old: State, new: State, version: Version) -> list[Change]:
    """What readers must be told."""
    before, now = live(old), live(new)
    return [
        Change(key, before.get(key), now.get(key), new[key][0] if key in new else version.stamp)
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
    ]


@dataclass
class OwnerHistory:
    """The owner of an origin, every head it published and every state it had."""

    elements: OriginSet = field(default_factory=OriginSet)
    heads: list[Head] = field(default_factory=list)
    states: dict[Version, State] = field(default_factory=dict)
    base: Base | None = None
    epoch: int = 1

    @property
    def stamp(self) -> int:
        """The newest stamp."""
        return self.elements.version.stamp

    @property
    def head(self) -> Head:
        """The last published head."""
        return self.heads[-1]

    def publish(
        self, entries: Sequence[Entry] = (), *, stamp: int = 0, floor: int | None = None
    ) -> Head:
        """Advance to a head at ``stamp``, at least the newest entry's or the present one."""
        newest = entries[-1][1] if entries else self.stamp
        version = Version(self.epoch, max(stamp, newest))
        floor = self.elements.floor if floor is None else floor
        expected = after(state_of(self.elements), entries, floor)
        self.elements.advance(entries, version=version, floor=floor)
        assert state_of(self.elements) == expected
        self.states[version] = expected
        self.heads.append(self.describe())
        return self.head

    def describe(self) -> Head:
        """The head of the present state."""
        elements = self.elements
        return Head(
            origin=Origin("fjord"),
            epoch=self.epoch,
            base=self.base,
            stamp=elements.version.stamp,
            floor=elements.floor,
            count=len(elements),
            root=root(state_of(elements)),
            issued_at=len(self.heads),
            observed_at=0,
            key_id=b"key",
        )

    def open_epoch(self, *, base: Head | None, stamp: int | None = None) -> Head:
        """A new writer continues from ``base`` (or from nothing, perhaps at an earlier stamp)."""
        self.epoch += 1
        if base is None:
            self.base = None
            version = Version(self.epoch, self.stamp if stamp is None else stamp)
            kept = [entry for entry in self.elements.entries() if entry[1] <= version.stamp]
            self.elements = OriginSet.restored(
                version, min(self.elements.floor, version.stamp), kept
            )
        else:
            self.base = Base(base.epoch, base.stamp, base.root)
            entries = [(key, *stored) for key, stored in self.states[base.version].items()]
            self.elements = OriginSet.restored(Version(self.epoch, base.stamp), base.floor, entries)
        return self.publish()

    def replica(self) -> OriginSet:
        """A replica at the present head."""
        return OriginSet.restored(
            self.elements.version, self.elements.floor, self.elements.entries()
        )


def transfer(
    source: OriginSet, start: int, budget: int = PLENTY
) -> list[tuple[int, int, list[Entry]]]:
    """All chunks from ``start`` to the source's version."""
    chunks = []
    complete = False
    while not complete:
        entries, to, complete = source.since(start, budget)
        chunks.append((start, to, entries))
        start = to
    return chunks


def staged(
    head: Head,
    start: int,
    chunks: Iterable[tuple[int, int, list[Entry]]],
    *,
    replaces: bool = False,
) -> Staging:
    """A staging that took these chunks."""
    staging = Staging(epoch=head.epoch, start=start, replaces=replaces)
    for first, to, entries in chunks:
        staging.add(first, to, entries)
    return staging


def pull(replica: OriginSet, source: OriginSet, head: Head, budget: int = PLENTY) -> list[Change]:
    """Bring ``replica`` to ``head``, as a delta where it can continue, else by snapshot."""
    replaces = not replica.can_continue(head)
    start = 0 if replaces else replica.version.stamp
    return replica.commit(
        staged(head, start, transfer(source, start, budget), replaces=replaces), head
    )
