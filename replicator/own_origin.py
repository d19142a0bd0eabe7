"""Our own origin: the only writer of this cluster's elements.

Changes are stamped when observed and wait in the pending batch; :meth:`OwnOrigin.seal` moves the
batch into the set and signs the next head (rules C1, C3).  Nothing of a sealed batch is served
before it is durable: while ``sealing``, what it replaced is kept, and peers are served the state
before it. Under steady load some batch always is being sealed, and nobody must have to wait for a
pause.

Of two agents of one cluster only the holder of their lease *leads*.  The other's own origin is
empty, states nothing and serves nothing: what it knows of the cluster is a remote origin like any
other, which :meth:`OwnOrigin.inherit` makes its own and :meth:`OwnOrigin.release` hands back (rule
C10; when to is :mod:`replicator.siblings`'s).

Invariants: an element whose value is unchanged gets no new stamp; :meth:`OwnOrigin.served` is
exactly the state at the last durable head.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import merge
from math import inf
from operator import itemgetter

from clusters.model import ServiceKey
from crdt import ZERO, Base, Change, Chunk, Entry, Head, Origin, OriginSet, StampClock, Version
from crdt.entries import ADD, NIL, REMOVE
from replicator.kinds import MAX_ENTRY_BYTES, says_the_same
from replicator.membership import is_member
from replicator.messages import Record
from replicator.outflow import Served
from replicator.policies import is_policy
from replicator.projection import service_of
from replicator.rivals import Rivals
from replicator.service_index import ServiceIndex
from replicator.signing import Signer

_STAMP = itemgetter(1)
MEMBERS = "members"
POLICIES = "policies"

Group = ServiceKey | str | None
"""What is stated together: a service, None for the cluster's own element, :data:`MEMBERS` or
:data:`POLICIES`."""


def _group_of(element: bytes) -> Group:
    if is_policy(element):
        return POLICIES
    return MEMBERS if is_member(element) else service_of(element)


def _live_value(entry: Entry | None) -> bytes | None:
    return None if entry is None or entry[2] == REMOVE else entry[3]


@dataclass(frozen=True, slots=True)
class OwnBatch:
    """What must be on disk, in one transaction, before the head may be sent."""

    epoch: int
    ceiling: int
    last_stamp: int
    head: Head
    entries: tuple[Entry, ...]
    floor: int
    changes: tuple[Change, ...]
    """What readers of our own elements see differently."""
    replace: bool = False
    """The entries are all there are: what was stored before is deleted."""


class OwnOrigin:
    """State of the local origin."""

    def __init__(
        self, origin: Origin, signer: Signer, *, epoch: int, clock: StampClock, elements: OriginSet
    ) -> None:
        """Continue from ``elements`` (empty at first) in ``epoch``."""
        self.origin = origin
        self.signer = signer
        self.epoch = epoch
        self.elements = elements
        self.index = ServiceIndex(elements)
        self.head: Head | None = None
        self.record: Record | None = None
        """By what :attr:`head` verifies; None for a head of an earlier life until it is re-issued,
        since the certificate may be another one now."""
        self.published_head: Head | None = None
        """The last durable head: also while the next is sealed."""
        self._published_record: Record | None = None
        self.leads_until = inf
        """Monotonic time until which we may write; :data:`math.inf` without a lease."""
        self.leading = True
        """Whether we write this origin: always, without a lease."""
        self.rivals = Rivals()
        self._inherited = False
        """Our journal holds none of this state yet: the next batch is stored with all of it."""
        self._continues: Base | None = None
        """What the first head of the next epoch continues from."""
        self.begun: Version = ZERO
        """The first version of the epoch, when this life began it: below it, it is another's."""
        self._anew = False
        """The next batch is everything, in a set of its own."""
        self._withheld = False
        """The state at :attr:`published_head` cannot be told from the set any more."""
        self._former: list[Entry] = []
        """What the batch being sealed replaced, by stamp."""
        self.sealing = False
        self.entry_limit = MAX_ENTRY_BYTES
        """Bytes of an element and its value; larger ones are left out, the others go on."""
        self.oversized = 0
        """Entries left out for exceeding the entry limit."""
        self._clock = clock
        self._pending: dict[bytes, Entry] = {}
        self._services: dict[Group, dict[bytes, bytes]] = {}
        self._observed_at: int | None = None
        self._moved = False
        self._issued_at = 0
        self._floor_target = 0
        self._floor_stamp = 0
        self._group()

    def _group(self) -> None:
        """Work out what is stated together from the set alone."""
        self._services = {}
        for element, _, value in self.elements.live():
            self._services.setdefault(_group_of(element), {})[element] = value

    def restore_head(self, head: Head) -> None:
        """Take the journal's last head; later ones, and its re-issues, are issued above it."""
        self.head = self.published_head = head
        self._issued_at = head.issued_at

    @property
    def dirty(self) -> bool:
        """Whether a head should be published."""
        return self.leading and (bool(self._pending) or self._moved or self.head is None)

    @property
    def signed_by_former_key(self) -> bool:
        """Whether the head has the signature of another key than the present one."""
        return self.head is not None and self.head.key_id != self.signer.key_id

    @property
    def stated_services(self) -> set[ServiceKey]:
        """Services about which something live is stated, pending changes included."""
        stated = self._services.items()
        return {key for key, elements in stated if isinstance(key, ServiceKey) and elements}

    def state(self, key: Group, stated: Mapping[bytes, bytes], wall_ns: int) -> int:
        """Make the live elements of ``key`` exactly ``stated``; returns how many changed.

        Stamps are taken now, in element order; an entry over the size limit is left out and
        counted.  While another agent leads, nothing is stated.  What a newer version appended to a
        value before it was rolled back is no change.
        """
        if not self.leading:
            return 0
        current = self._services.setdefault(key, {})
        changes: list[tuple[bytes, int, bytes]] = [
            (element, REMOVE, NIL) for element in current.keys() - stated.keys()
        ]
        for element, value in stated.items():
            if says_the_same(current.get(element, b""), value):
                continue
            if len(element) + len(value) <= self.entry_limit:
                changes.append((element, ADD, value))
                continue
            self.oversized += 1
            if element in current:
                changes.append((element, REMOVE, NIL))
        for element, op, value in sorted(changes):
            self._pending[element] = (element, self._clock.next(wall_ns), op, value)
            if op == ADD:
                current[element] = value
            else:
                del current[element]
        if changes and self._observed_at is None:
            self._observed_at = wall_ns
        if not current:
            del self._services[key]
        return len(changes)

    def move_floor(self, floor: int, wall_ns: int) -> None:
        """Collect tombstones up to ``floor``; takes a fresh stamp and head (never moves back).

        When all is stated anew there will be none, and ``floor`` is one of the former stamps.
        """
        if floor > self.elements.floor and not self._anew:
            self._floor_target = floor
            self._floor_stamp = self._clock.next(wall_ns)
            self._moved = True

    def open_epoch(self, above: int) -> None:
        """Start an epoch above ``above`` and ours, without a base: receivers take a snapshot.

        For when a head of our own origin that we do not hold was met (rules C10, C12).  It takes
        effect with the next :meth:`seal`; until then the present head stays what it is.
        """
        self.epoch = max(self.epoch, above) + 1
        self._continues = None
        self._moved = True

    # ---- taking over and handing back ----------------------------------------------------------

    def inherit(
        self, elements: OriginSet, head: Head | None, record: Record | None, epoch: int
    ) -> None:
        """Lead, in ``epoch``, from the state that ``head`` states; from nothing without one.

        The caller gives ``elements`` away.  Nothing gets a new stamp; the next :meth:`seal` makes
        the first head of the epoch, with the former head as its base.  Until that is published,
        peers are served the former head.
        """
        self.leading, self.epoch = True, epoch
        self._hold(elements, head, record)
        self._moved = self._inherited = True
        if head is not None:
            self._continues = Base(head.epoch, head.stamp, head.root)
            self._issued_at = head.issued_at

    def release(self) -> tuple[OriginSet, Head | None, Record | None]:
        """Lead no more: what waits or is being sealed is dropped, the last durable state returned.

        While a batch is sealed that drops tombstones, that state cannot be told any more: the set
        then does not add up to the head, as a caller who restores it finds out.
        """
        head, record, elements = self.published_head, self._published_record, self.elements
        if head is None:
            elements = OriginSet()
        elif self.sealing:
            kept = [entry for entry in elements.entries() if entry[1] <= head.stamp]
            elements = OriginSet.restored(head.version, head.floor, [*kept, *self._former])
        self.leading = False
        self._hold(OriginSet(), None, None)
        return elements, head, record

    def _hold(self, elements: OriginSet, head: Head | None, record: Record | None) -> None:
        """Begin with this state, of which we have written nothing."""
        self.elements, self.index = elements, ServiceIndex(elements)
        self.head = self.record = None
        self.published_head, self._published_record = head, record
        self._clock = StampClock(last=elements.version.stamp)
        self._pending, self._former, self._observed_at = {}, [], None
        self.sealing = self._withheld = self._anew = self._moved = self._inherited = False
        self._continues = None
        self._issued_at = self._floor_target = self._floor_stamp = 0
        self._group()

    # ---- clocks and batches --------------------------------------------------------------------

    def ahead_ns(self, wall_ns: int) -> int:
        """How far the newest stamp is in the future of the wall clock; 0 when it is not."""
        return max(0, self._clock.last - wall_ns)

    def state_anew(self, wall_ns: int) -> None:
        """Start a higher epoch in which everything stated has a new stamp of this wall clock.

        For stamps that a wrong clock has put into the future.  Takes effect with the next
        :meth:`seal`; the ceiling and the rule that stamps rise begin anew with the epoch.
        """
        self.epoch += 1
        self._continues = None
        self._clock = StampClock()
        self._pending = {
            element: (element, self._clock.next(wall_ns), ADD, value)
            for element, value in sorted(
                item for stated in self._services.values() for item in stated.items()
            )
        }
        self._observed_at = wall_ns
        self._floor_target = self._floor_stamp = 0
        self._anew = self._moved = True

    def seal(self, wall_ns: int) -> OwnBatch:
        """Move the pending batch into the state and sign its head; ``sealing`` until published.

        The caller makes the batch durable and then calls :meth:`published`.
        """
        entries = tuple(sorted(self._pending.values(), key=_STAMP))
        before: dict[bytes, Entry | None] = dict.fromkeys(self._pending)
        replace = self._anew
        if replace:
            before |= {
                element: self.elements.entry(element) for element, _, _ in self.elements.live()
            }
            self.elements, self._issued_at = OriginSet(), 0
        else:
            before = {element: self.elements.entry(element) for element in before}
            self._former = sorted(filter(None, before.values()), key=_STAMP)
        floor = max(self.elements.floor, self._floor_target)
        stamp = self._clock.last if entries or self._floor_stamp else self.elements.version.stamp
        if stamp == 0:
            stamp = self._clock.next(wall_ns)
        self._withheld = replace or floor > self.elements.floor
        self.elements.advance(entries, version=Version(self.epoch, stamp), floor=floor)
        changes = self._changes(before)
        if replace:
            self.index = ServiceIndex(self.elements)
        else:
            self.index.apply(changes)
        observed = wall_ns if self._observed_at is None else self._observed_at
        if self.head is None or self.head.epoch != self.epoch:
            self.begun = self.elements.version
        head = self._sign(wall_ns, observed)
        self._pending, self._observed_at = {}, None
        if self._inherited:
            entries, replace = tuple(sorted(self.elements.entries(), key=_STAMP)), True
        self._anew = self._moved = self._inherited = False
        self._floor_stamp = 0
        self.sealing = True
        self.head = head
        last, ceiling = self._clock.last, self._clock.ceiling
        return OwnBatch(self.epoch, ceiling, last, head, entries, floor, changes, replace)

    def _changes(self, before: Mapping[bytes, Entry | None]) -> tuple[Change, ...]:
        changes = []
        for element, old in before.items():
            entry = self.elements.entry(element)
            values = (_live_value(old), _live_value(entry))
            if values[0] == values[1]:
                continue  # came and went within the batch, or went and came back
            stamp = self.elements.version.stamp if entry is None else entry[1]
            changes.append(Change(element, *values, stamp))
        return tuple(changes)

    def published(self) -> bool:
        """The sealed batch is durable: its head may be served; whether it begins an epoch."""
        former, head = self.published_head, self.head
        self.sealing = self._withheld = False
        self._former = []
        self.published_head, self._published_record = head, self.record
        return former is None or head is None or former.epoch < head.epoch

    def served(self) -> Served | None:
        """What peers may be told: the state at the last durable head.

        None before there is one of this life, and while a batch is sealed that drops tombstones or
        everything.
        """
        head, record = self.published_head, self._published_record
        if head is None or record is None or self._withheld:
            return None
        nodes = None if self.sealing else self.elements.nodes
        return Served(self._since if self.sealing else self.elements.since, head, record, nodes)

    def _since(self, position: int, budget: int) -> Chunk:
        """As ``elements.since``, without the batch being sealed and with what it replaced."""
        assert self.published_head is not None  # noqa: S101 - it is served
        top = self.published_head.stamp
        chunk = self.elements.since(position, budget)
        to = min(chunk.to, top)
        kept = chunk.entries[: bisect_right(chunk.entries, to, key=_STAMP)]
        first, last = (bisect_right(self._former, stamp, key=_STAMP) for stamp in (position, to))
        taken: list[Entry] = []
        for entry in merge(kept, self._former[first:last], key=_STAMP):
            budget -= len(entry[0]) + len(entry[3])
            if budget < 0 and taken:
                return Chunk(taken, taken[-1][1], complete=False)
            taken.append(entry)
        return Chunk(taken, to, complete=to == top)

    def reissue(self, wall_ns: int) -> Head:
        """Sign the present head anew with a later issue time; nothing else changes."""
        if self.head is None or self.sealing:
            message = "no published head to issue again"
            raise ValueError(message)
        self.head = self._sign(wall_ns, self.head.observed_at)
        self.published()
        return self.head

    def _sign(self, wall_ns: int, observed_at: int) -> Head:
        self._issued_at = max(self._issued_at + 1, wall_ns)
        elements, signer, former = self.elements, self.signer, self.head
        continues = former is not None and former.epoch == elements.version.epoch
        head = Head(
            origin=self.origin,
            epoch=elements.version.epoch,
            base=former.base if former is not None and continues else self._continues,
            stamp=elements.version.stamp,
            floor=elements.floor,
            count=len(elements),
            root=elements.root(),
            issued_at=self._issued_at,
            observed_at=observed_at,
            key_id=signer.key_id,
        )
        self.record = Record(self.origin, signer.key_id, signer.chain)
        return head.signed(signer.sign(head.canonical()))

    def clean_stop(self) -> int:
        """The exact last stamp, to be stored as the ceiling of a clean stop."""
        return self._clock.last
