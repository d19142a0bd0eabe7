"""One remote origin at this replica: its committed set, its head, and the transfer under way.

Every committed view is exactly the owner's state at the committed head.  The machine decides and
changes state synchronously; sending, storing and logging are its caller's.

No step takes long, whatever the size of the set: set and index of a transfer of several chunks are
worked out beside the committed ones as the chunks come, and its commit swaps them in at once.  Who
follows the changes is told of a large commit in slices (:meth:`RemoteOrigin.tell`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from operator import itemgetter
from typing import NamedTuple

from clusters.model import ServiceKey
from crdt import (
    ZERO,
    Change,
    ContinuityError,
    Entry,
    Former,
    GapError,
    Head,
    MismatchError,
    Origin,
    OriginSet,
    Staging,
    StaleError,
    Version,
)
from crdt.entries import ADD
from replicator.errors import ProtocolError
from replicator.freshness import Latencies
from replicator.kinds import check_entry
from replicator.messages import Record, Transfer
from replicator.networks import Networks
from replicator.repair import STAGED_BYTES_LIMIT, Repair
from replicator.service_index import ServiceIndex, touched
from replicator.signing import Verifier
from replicator.sources import Supply

SLICE = 2048
"""Elements told, or stored, in one step: as many as a chunk has."""


class Outcome(Enum):
    """What taking a chunk did."""

    STAGED = "staged"
    """Waiting for the rest of the transfer."""
    COMMITTED = "committed"
    RENEWED = "renewed"
    """Nothing new but a later issue time: the origin is fresh."""
    IGNORED = "ignored"
    """Already committed, or of an older epoch."""
    AGAIN = "again"
    """The chunk does not continue what is here: ask again from the committed version."""
    MISMATCH = "mismatch"
    """Count or root do not add up; the view stays, ask for a snapshot."""
    HELD_BACK = "held_back"
    """The head verifies, but was not admitted; the view stays."""
    EQUIVOCATION = "equivocation"
    """A second, different state was signed for the committed version; the view stays.

    The larger (root, floor, count) wins, by snapshot: then ``distrust`` is set.
    """


class Taken(NamedTuple):
    """The outcome of a chunk and, for a commit, what it did."""

    outcome: Outcome
    changes: list[Change] = []  # noqa: RUF012 - never changed
    entries: tuple[Entry, ...] | None = ()
    """What the journal needs: the entries put, or with ``replaced`` all of them.

    None for all of them when they are too many for one step.
    """
    replaced: bool = False
    """The transfer brought a whole state."""
    services: frozenset[ServiceKey] = frozenset()
    """Those whose view may have changed, as far as :attr:`changes` tells."""
    decided: bool = False
    """What the origin states about members has moved."""
    steered: bool = False
    """What it states about traffic has moved."""


def _is_readable(origin: Origin, change: Change) -> bool:
    """Whether a change is of an element, with a value to show; what had rotted may be neither."""
    value = change.before if change.after is None else change.after
    try:
        check_entry(origin.cluster, change.element, ADD, value or b"")
    except ProtocolError:
        return False
    return True


class RemoteOrigin:
    """What is known of one remote origin."""

    def __init__(self, origin: Origin, networks: Networks | None = None) -> None:
        """Nothing known yet; addresses outside ``networks`` (None: no bounds) are not shown."""
        self.origin = origin
        self._networks = networks
        self.elements = OriginSet()
        self.index = ServiceIndex(self.elements, networks)
        self.head: Head | None = None
        self.record: Record | None = None
        self.staging: Staging | None = None
        self.source: int | None = None
        """Session this origin is taken from."""
        self.supply = Supply()
        self.fresh_at: float | None = None
        """Monotonic time when the origin's issue time last advanced; None in this life."""
        self.distrust = False
        """The last transfer did not add up: ask for a snapshot."""
        self.rotten = False
        """What is held is not what its head says: any signed state, of this version too, mends."""
        self.repair: Repair | None = None
        self.staged_limit = STAGED_BYTES_LIMIT
        self._resumed = False
        """A state staged from a former source is continued by deltas of the present one."""
        self._staged_bytes = 0
        self._prepared: ServiceIndex | None = None
        """The index after the transfer under way; None while its first chunk is the only one."""
        self._received: list[Entry] = []
        """What the transfer under way brought, if it is a delta."""
        self.replacements = 0
        """Snapshots committed in this life: entries may have gone without a trace."""
        self.untold: deque[Former] = deque()
        """What large commits replaced, and nobody was told of yet."""
        self.held_back = False
        """Its newest head is from the future: it is not asked for."""
        self.unstored = False
        """The store of remote origins lacks this state: the next commit is stored whole."""
        self.latencies = Latencies()
        self.equivocations = 0
        """Times that another state signed for a committed version was met in this life."""
        self.evidence: tuple[Head, Head] | None = None
        """The two heads of the last time: the one held, and the one met."""
        self.changes = 0
        """Elements added, changed or removed by commits in this life."""

    @property
    def version(self) -> Version:
        """The committed version."""
        return self.elements.version

    def restore(self, elements: OriginSet, head: Head, record: Record | None) -> bool:
        """Take what was kept; False (and nothing taken) when it does not add up.

        Without the record by which the head verifies, it is not relayed.
        """
        if len(elements) != head.count or elements.root() != head.root:
            return False
        self.elements, self.head, self.record = elements, head, record
        self.index = ServiceIndex(elements, self._networks)
        return True

    def take(
        self,
        chunk: Transfer,
        verifier: Verifier,
        offered: Record | None,
        admits: Callable[[Head], bool] = lambda _: True,
    ) -> Taken:
        """Stage a chunk and commit if it carries its head.

        ``offered`` is the record the sender gave; it counts once a head verifies by it.  ``admits``
        has the last word on a head that verifies.

        Raises :class:`~replicator.errors.ProtocolError` when the head does not verify, or the
        transfer exceeds ``staged_limit`` (``too_large``); state is unchanged then, the
        staging is discarded.
        """
        head, known = chunk.head, self.head
        mends = self.rotten if chunk.snapshot else self._is_followed
        if head is not None and known is not None and head.version == known.version:
            outdoes = chunk.snapshot and head.outdoes(known)
            if not outdoes and not (mends and head.same_state(known)):
                self.staging = None
                return Taken(self._renew(head, known, verifier, offered))
        if Version(chunk.epoch, chunk.to) <= self.version and not chunk.snapshot and not mends:
            return Taken(Outcome.IGNORED)
        if not self._stage(chunk):
            return Taken(Outcome.AGAIN)
        if head is None:
            return Taken(Outcome.STAGED)
        return self._commit(head, verifier, offered, admits)

    @property
    def _is_followed(self) -> bool:
        """Whether deltas continue what was staged, by buckets or from another source."""
        if self.staging is None:
            return False
        return self._resumed or (self.repair is not None and self.staging is self.repair.staging)

    def may_resume_at(self, version: Version) -> bool:
        """Whether what is staged may be continued from a peer at ``version`` (rule C6).

        That is one in the same epoch that is behind nobody: else it may hold an entry that the
        former source left out for a newer one.
        """
        staging = self.staging
        if staging is None or self.distrust or self.rotten or self.repair is not None:
            return False
        staged = Version(staging.epoch, staging.position)
        return version.epoch == staging.epoch and version >= max(staged, self.supply.highest)

    def resume(self) -> Version:
        """From which version to ask a source: what is staged is kept and continued, if anything is.

        One with a floor above that sends a snapshot, and then it begins anew (rule C7).
        """
        staging = self.staging
        self._resumed = staging is not None and staging.replaces
        return self.version if staging is None else Version(staging.epoch, staging.position)

    def may_be_mended_by(self, head: Head) -> bool:
        """Whether the state at ``head`` may take the place of what is held."""
        known = self.head
        if known is not None and head.version == known.version:
            return head.same_state(known)
        return head.version > self.version

    def _stage(self, chunk: Transfer) -> bool:
        """Whether the chunk continues the transfer under way, or begins one.

        A snapshot's first chunk always begins: one that started over may lack what it sent before.
        """
        staging = self.staging
        begins = chunk.snapshot and chunk.start == 0
        if (
            begins
            or staging is None
            or staging.epoch != chunk.epoch
            or (staging.replaces and not self._is_followed) != chunk.snapshot
        ):
            start, whole = 0 if chunk.snapshot else self.version.stamp, chunk.snapshot
            mends = whole and self.rotten
            staging = Staging(epoch=chunk.epoch, start=start, replaces=whole, mends=mends)
            self._staged_bytes, self._received, self._prepared = 0, [], None
            self._resumed = False
        self._staged_bytes += sum(len(entry[0]) + len(entry[3]) for entry in chunk.entries)
        self.staging = None
        if self._staged_bytes > self.staged_limit:
            detail = f"a transfer of {self.origin.cluster} exceeds {self.staged_limit} bytes"
            raise ProtocolError(detail, code="too_large")
        try:
            staging.add(chunk.start, chunk.to, chunk.entries)
        except GapError:
            return False
        self.staging = staging
        if chunk.head is None or chunk.snapshot or self._prepared is not None:
            self._prepare(staging)
        if not staging.replaces:
            self._received += chunk.entries
        return True

    def _prepare(self, staging: Staging) -> None:
        """Do what the commit would have to do for the chunk just staged."""
        if self._prepared is None:
            self._prepared = self.index.bare() if staging.replaces else self.index.fork()
        self._prepared.apply(self.elements.prepare(staging))

    def verified_by(self, head: Head, verifier: Verifier, offered: Record | None) -> Record:
        """The record ``head`` verifies by; raises :class:`ProtocolError` when there is none."""
        record = self.record
        if record is None or record.key_id != head.key_id:
            record = offered
        if record is None:
            detail = f"a head of {self.origin.cluster} came before its record"
            raise ProtocolError(detail, code="unknown_key")
        verifier.verify(head, record)
        return record

    def contradicted(self, held: Head, met: Head) -> None:
        """Keep the evidence: two signed heads of one version with different states."""
        self.equivocations += 1
        self.evidence = (held, met)

    def _renew(
        self, head: Head, known: Head, verifier: Verifier, offered: Record | None
    ) -> Outcome:
        same = head.same_state(known)
        if same and head.issued_at <= known.issued_at:
            return Outcome.IGNORED
        record = self.verified_by(head, verifier, offered)
        if not same:
            self.distrust = self.distrust or head.outdoes(known)
            self.contradicted(known, head)
            return Outcome.EQUIVOCATION
        self.head, self.record = head, record
        return Outcome.RENEWED

    def _commit(
        self,
        head: Head,
        verifier: Verifier,
        offered: Record | None,
        admits: Callable[[Head], bool],
    ) -> Taken:
        staging, self.staging = self.staging, None
        assert staging is not None  # noqa: S101 - the chunk was just staged
        record = self.verified_by(head, verifier, offered)
        if not admits(head):
            return Taken(Outcome.HELD_BACK)
        before = self.version.stamp
        try:
            former = self.elements.swap(staging, head)
        except MismatchError:
            return Taken(Outcome.MISMATCH, replaced=staging.replaces)
        except StaleError:
            return Taken(Outcome.IGNORED)
        except (GapError, ContinuityError):
            # Only a snapshot leads on from here: asking for a delta again would never end.
            self.distrust = True
            return Taken(Outcome.AGAIN)
        self.distrust = False
        if staging.replaces:
            self.rotten, self.repair = False, None
        known = self.head
        if known is None or not head.same_state(known) or head.issued_at >= known.issued_at:
            # What mends may be told under an older issue of the head held: the newer one stays.
            self.head, self.record = head, record
        self.replacements += staging.replaces
        entries = self._to_store(staging, before, head.stamp)
        moved, steered = self.index.cells_moved, self.index.policies_moved
        if staging.mends:
            changes, services = self._mended(former)
        else:
            changes, services = self._follow(former, whole=staging.is_prepared(head.stamp))
        return Taken(
            *(Outcome.COMMITTED, changes, entries, staging.replaces, services),
            decided=self.index.cells_moved > moved,
            steered=self.index.policies_moved > steered,
        )

    def _mended(self, former: Former) -> tuple[list[Change], frozenset[ServiceKey]]:
        """Make the index anew, since nobody knows of what had rotted: all may have changed."""
        before, self._prepared = self.index, None
        self.index = ServiceIndex(self.elements, self._networks)
        self.index.cells_moved += before.cells_moved + 1
        self.index.policies_moved += before.policies_moved + 1
        found = (change for change in former.differences() if _is_readable(self.origin, change))
        services = before.all_services() | self.index.all_services()
        return sorted(found, key=itemgetter(0)), frozenset(services)

    def _follow(self, former: Former, *, whole: bool) -> tuple[list[Change], frozenset[ServiceKey]]:
        """Bring the index up to a commit; returns the first of what it changed, and where.

        ``whole``: what was prepared is all there is.
        """
        if self._prepared is None:
            changes = sorted(former.differences(), key=itemgetter(0))
            return changes, frozenset(self.index.apply(changes))
        self.index = self._prepared if whole else self.index.rebuilt()
        self._prepared = None
        self.untold.append(former)
        changes = self.tell()
        return changes, touched(changes)

    def _to_store(self, staging: Staging, before: int, last: int) -> tuple[Entry, ...] | None:
        """What the journal needs of the commit from stamp ``before`` to ``last``."""
        received, self._received = self._received, []
        if staging.replaces or self.unstored:
            return None if len(self.elements) > SLICE else tuple(self.elements.entries())
        if staging.is_prepared(last):
            return tuple(received)
        newest = {entry[0]: entry for entry in sorted(received, key=itemgetter(1))}
        return tuple(entry for entry in newest.values() if before < entry[1] <= last)

    def tell(self) -> list[Change]:
        """Look at the next slice of what commits replaced; returns what changed in it, if anything.

        To be called until :attr:`untold` is empty.
        """
        if not self.untold:
            return []
        first = self.untold[0]
        changes = sorted(first.differences(SLICE), key=itemgetter(0))
        if first.told:
            self.untold.popleft()
        return changes

    @property
    def known(self) -> bool:
        """Whether a complete state was ever committed."""
        return self.version > ZERO
