"""The repair of one origin whose state here is not what its head says.

In this order: *counting* the buckets of what is held, a slice at a time; *asked*, until the source
has told its own; *lending*, while it sends what lies in those that differ; *following*, as the
transfer goes on from there as a delta and ends with a commit that replaces.  What the source tells
counts only under a signed head: its buckets must hash up to that head's root, and the commit checks
count and root as ever.  Until then the view stays, and no other transfer of the origin is taken.

Asks and tells nothing itself (:mod:`replicator.repairs`).
"""

from __future__ import annotations

from enum import Enum

from crdt import Entry, GapError, Head, OriginSet, Staging
from crdt.buckets import Cover, Nodes, depth_for, differing, read_nodes
from crdt.census import Census
from replicator.errors import ProtocolError
from replicator.messages import BucketEntries, Buckets, Transfer

STAGED_BYTES_LIMIT = 1 << 30
"""Elements and values of one transfer; ten times what a million endpoints take."""


class Stage(Enum):
    """How far a repair has come."""

    COUNTING = "counting"
    ASKED = "asked"
    LENDING = "lending"
    FOLLOWING = "following"


class Repair:
    """One repair under way."""

    def __init__(self, elements: OriginSet, count: int, now: float) -> None:
        """Of what ``elements`` holds, which should be ``count`` entries; it must not change."""
        self.stage = Stage.COUNTING
        self.asked: int | None = None
        """The session that was asked."""
        self.moved_at = now
        """Monotonic time when something came, or was asked."""
        self.staging: Staging | None = None
        self.bytes = 0
        """Elements and values staged that the source sent."""
        self.head: Head | None = None
        """Whose buckets were told."""
        self._census = Census(elements.held(), depth_for(count))
        self._cover = Cover(())
        self._lent = 0

    @property
    def awaits_buckets(self) -> bool | None:
        """Whether buckets are awaited (True), or entries of them (False); None for neither."""
        return {Stage.ASKED: True, Stage.LENDING: False}.get(self.stage)

    @property
    def followed(self) -> Staging | None:
        """What deltas continue, once all buckets are there."""
        return self.staging if self.stage is Stage.FOLLOWING else None

    @property
    def depth(self) -> int:
        """The cut that buckets are compared at."""
        return self._census.depth

    def count(self) -> bool:
        """Do the next slice; whether all is counted."""
        return self._census.step()

    @property
    def root(self) -> bytes:
        """The root of what is held, once all is counted."""
        return self._census.root()

    def ask(self, number: int, now: float) -> None:
        """Session ``number`` is asked for its buckets; what another one told is void."""
        self.stage, self.asked, self.moved_at = Stage.ASKED, number, now
        self.staging = self.head = None

    def gives_way(self, chunk: Transfer) -> bool:
        """Whether a transfer is taken meanwhile: what follows the buckets, or comes instead.

        A source that cannot go on from the version its buckets were told at sends a snapshot.
        """
        if self.stage is Stage.LENDING and chunk.snapshot and chunk.start == 0:
            self.stage = Stage.FOLLOWING
        return self.stage is Stage.FOLLOWING

    def nodes_of(self, told: Buckets) -> Nodes:
        """The buckets told; raises :class:`ProtocolError` unless they are those asked for.

        Code ``bad_buckets``: another cut, or nodes that do not hash up to the head's root.
        """
        try:
            root, nodes = read_nodes(told.nodes, told.depth)
        except ValueError as error:
            raise ProtocolError(str(error), code="bad_buckets") from error
        if told.depth != self.depth or root != told.head.root:
            detail = f"buckets of {told.head.origin.cluster} that are not those of its head"
            raise ProtocolError(detail, code="bad_buckets")
        return nodes

    def compare(self, nodes: Nodes, head: Head, now: float) -> tuple[int, ...]:
        """Indexes of what to ask for: the buckets that differ, and one if none does.

        What is kept of the others is staged.
        """
        indexes = differing(nodes, self._census.nodes) or (next(iter(nodes)),)
        staging = Staging(epoch=head.epoch, start=0, replaces=True, mends=True)
        staging.lend(self._census.outside(indexes))
        self._cover, self._lent, self.bytes = Cover(indexes), 0, 0
        self.staging, self.head = staging, head
        self.stage, self.moved_at = Stage.LENDING, now
        return indexes

    def fill(self, part: BucketEntries, now: float) -> None:
        """Stage what lies in the buckets asked for.

        Raises :class:`ProtocolError`: ``bad_buckets`` for entries of other buckets, a gap or
        another epoch, ``too_large`` for more than :data:`STAGED_BYTES_LIMIT`.
        """
        staging, head = self.staging, self.head
        assert staging is not None  # noqa: S101 - it is lending
        assert head is not None  # noqa: S101
        self._check(part, head)
        self.bytes += sum(len(entry[0]) + len(entry[3]) for entry in part.entries)
        if self.bytes > STAGED_BYTES_LIMIT:
            detail = f"buckets of {part.origin.cluster} exceed {STAGED_BYTES_LIMIT} bytes"
            raise ProtocolError(detail, code="too_large")
        self._stage(staging, part)
        self.moved_at = now
        if part.last:
            # Of the other buckets only what was there at the head is staged: the rest follows.
            staging.position = head.stamp
            self.stage = Stage.FOLLOWING

    def _check(self, part: BucketEntries, head: Head) -> None:
        foreign = any(entry[0] not in self._cover for entry in part.entries)
        if part.epoch != head.epoch or foreign:
            detail = f"entries of {part.origin.cluster} that were not asked for"
            raise ProtocolError(detail, code="bad_buckets")

    def _stage(self, staging: Staging, part: BucketEntries) -> None:
        entries: tuple[Entry, ...] = part.entries
        try:
            staging.add(part.start, part.to, entries)
        except GapError as error:
            raise ProtocolError(str(error), code="bad_buckets") from error
