"""The state folder of a simulated agent: what was synced survives a crash, the rest may not.

As the journal's two files: a batch of our own is on disk before it is sent; commits of remote
origins are atomic, in order, and synced a little later, so a crash loses a suffix of them.
"""

from __future__ import annotations

from collections import deque
from copy import copy
from dataclasses import dataclass, field

from crdt import Entry, Origin, OriginSet, StampClock
from replicator.codec import decode_head, decode_record
from replicator.effects import Drop, Store
from replicator.own_origin import OwnBatch, OwnOrigin
from replicator.remote_origin import RemoteOrigin
from replicator.signing import Signer

Rows = dict[bytes, Entry]


def _put(rows: Rows, entries: tuple[Entry, ...], floor: int) -> None:
    """Put entries and drop tombstones up to ``floor``; a negative floor has not moved."""
    for entry in entries:
        rows[entry[0]] = entry
    if floor < 0:
        return
    for key in [entry[0] for entry in rows.values() if entry[2] and entry[1] <= floor]:
        del rows[key]


@dataclass(slots=True)
class Disk:
    """One state folder."""

    own: OwnBatch | None = None
    """The last own batch, for everything but its entries."""
    clean_stamp: int | None = None
    """The exact last stamp, after a clean stop."""
    rows: Rows = field(default_factory=dict)
    remotes: dict[Origin, tuple[Store, Rows]] = field(default_factory=dict)
    facts: dict[str, bytes] = field(default_factory=dict)
    unsynced: deque[Store | Drop] = field(default_factory=deque)
    """What a crash may lose: ends of remote origins, then their commits, oldest first."""

    def keep_own(self, batch: OwnBatch) -> None:
        """One transaction with fsync."""
        floor = 0 if self.own is None else self.own.floor
        self.own, self.clean_stamp = batch, None
        if batch.replace:
            self.rows = {}
        if batch.replace:
            self.rows.clear()
        _put(self.rows, batch.entries, batch.floor if batch.floor > floor else -1)

    def sync(self, number: int | None = None) -> None:
        """Have the oldest ``number`` of the unsynced commits (None: all) on disk."""
        left = len(self.unsynced) if number is None else min(number, len(self.unsynced))
        for _ in range(left):
            store = self.unsynced.popleft()
            if isinstance(store, Drop):
                self.remotes.pop(store.origin, None)
                continue
            former = self.remotes.get(store.origin)
            rows: Rows = {} if store.replace or former is None else former[1]
            moved = former is None or store.floor > former[0].floor
            _put(rows, store.entries or (), store.floor if moved else -1)
            self.remotes[store.origin] = (store, rows)

    def drop(self, origin: Origin) -> None:
        """Keep nothing of an origin any more: what waits of it is not written, its end is next."""
        waiting = (effect for effect in self.unsynced if effect.origin != origin)
        self.unsynced = deque([Drop(origin), *waiting])

    def crash(self, kept: int) -> None:
        """Lose all but ``kept`` per mille of the unsynced commits."""
        self.sync(len(self.unsynced) * kept // 1000)
        self.unsynced.clear()

    def copied(self) -> Disk:
        """What another machine gets from a copy of the synced part."""
        remotes = {origin: (store, dict(rows)) for origin, (store, rows) in self.remotes.items()}
        same = copy(self)
        same.rows, same.remotes, same.facts = dict(self.rows), remotes, dict(self.facts)
        same.unsynced = deque()
        return same

    def restored_own(self, origin: Origin, signer: Signer) -> OwnOrigin:
        """Our own origin as a start finds it; asserts that entries and head add up."""
        kept = self.own
        if kept is None:
            return OwnOrigin(origin, signer, epoch=1, clock=StampClock(), elements=OriginSet())
        elements = OriginSet.restored(kept.head.version, kept.head.floor, self.rows.values())
        whole = len(elements) == kept.head.count and elements.root() == kept.head.root
        assert whole, "the own journal does not add up"  # noqa: S101 - an invariant
        stamp = self.clean_stamp
        clock = (
            StampClock(last=kept.last_stamp, ceiling=kept.ceiling)
            if stamp is None
            else StampClock(last=stamp, ceiling=stamp)
        )
        own = OwnOrigin(origin, signer, epoch=kept.epoch, clock=clock, elements=elements)
        own.restore_head(kept.head)
        return own

    def restored_remotes(self) -> list[RemoteOrigin]:
        """The remote origins a start finds; asserts that each adds up (rule C11)."""
        found = []
        for origin, (store, rows) in sorted(self.remotes.items()):
            remote, head = RemoteOrigin(origin), decode_head(store.head)
            elements = OriginSet.restored(head.version, head.floor, rows.values())
            whole = remote.restore(elements, head, decode_record(store.record))
            assert whole, "a remote origin on disk does not add up"  # noqa: S101 - an invariant
            found.append(remote)
        return found
