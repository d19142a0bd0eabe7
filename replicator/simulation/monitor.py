"""What must hold after every step of a simulation, whatever happened (properties.md, marked I).

The monitor keeps its own books, from what owners sealed and what consumers were told, and never
asks the core whether it is right:

- 12  a committed view is exactly its owner's state at that head; what consumers were told adds up
- 13  a committed version never moves back in one life
- 14  nobody advertises, acknowledges or relays beyond what it committed, or sends beyond its chunk
- 8, 28  no stamp above the durable ceiling, nothing sent before it is on disk, no version twice
- 24  nothing is kept, sent or heard of a cluster that is forgotten, or of an epoch from before
- 27  of all decisions a process was told of the greatest counts, and is stated again
- 22  an owner states exactly what its cluster says (with 12: what is gone stays gone everywhere)
- 47  nothing gets a new stamp that says what it said before, in whatever version
- 41  what a session keeps is bounded by the number of origins

States are compared by fingerprints (a sum of hashes kept up to date), and whole as often as that
costs no more than the commits did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from crdt import ZERO, Head, Origin, Version
from replicator import messages as m
from replicator.effects import Changed
from replicator.kinds import ADMIT
from replicator.membership import Cell
from replicator.own_origin import OwnBatch
from replicator.remote_origin import RemoteOrigin
from replicator.simulation.counting import Counting, is_decision
from replicator.simulation.frames import read_once
from replicator.simulation.marks import NOTHING, Mark, live_mark, mark_of, moved, together
from replicator.simulation.process import Process

_CREDIT = 16
"""Elements that may be looked at for one commit."""
_IN_TURN = 16
"""Origins of one process that are looked at after every step, whatever moved."""
_HEADS, _WANT, _TRANSFER, _PACKED, _ADMISSION = 3, 4, 6, 10, 11
_BUCKETS, _BUCKET_ENTRIES = 13, 15
"""Message types of frames that claim or decide something."""


class Violation(Exception):  # noqa: N818 - a verdict about the core, not a failure of the caller
    """Something that must hold does not."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
        self.detail = detail


class _Book:
    """What the monitor knows of one origin at one process."""

    __slots__ = ("credit", "head", "mark", "version", "view")

    def __init__(self) -> None:
        self.head: Head | None = None
        self.version = ZERO
        """Of the set when :attr:`head` was last found to be its head."""
        self.mark: Mark = NOTHING
        self.view: dict[bytes, bytes] = {}
        self.credit = 0


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What each owner's state was at each head it ever sealed; only ever grows."""

    marks: dict[tuple[str, Version, bytes], Mark] = field(default_factory=dict)


class Monitor:
    """Watches all processes of one run."""

    def __init__(self, truth: Truth | None = None) -> None:
        """Nothing seen yet; ``truth`` is shared when several monitors watch one world."""
        self.truth = Truth() if truth is None else truth
        self._former: dict[str, dict[Origin, Version]] = {}
        """How far each process had come with origins that it dropped in this life."""
        self.checks = 0
        self.entries_sent = 0
        self.forked: set[str] = set()
        """Clusters whose versions may mean two states: a disk was lost, or two agents wrote."""
        self.rotten: set[tuple[str, Origin]] = set()
        """Which process may hold something else of which origin than it committed."""
        self._durable: dict[tuple[str, Version], bytes] = {}
        self._sent: dict[tuple[str, int], int] = {}
        """The greatest stamp that left the processes of a cluster, by epoch."""
        self._books: dict[str, dict[Origin, _Book]] = {}
        self._waiting: dict[str, list[Origin]] = {}
        """In a large world: the origins at each process that were not looked at in this round."""
        self._own: dict[str, Mark] = {}
        self._floors: dict[str, dict[int, int]] = {}
        """The greatest stamps that had left its cluster when a process began, by epoch."""

    def born(self, process: Process) -> None:
        """A process starts: what its disk held is what it shows."""
        own = process.replica.own
        self.rotten = {place for place in self.rotten if place[0] != process.name}
        self._former[process.name] = {}
        books = self._books[process.name] = {}
        for origin, remote in process.replica.remotes.items():
            book = books[origin] = _Book()
            book.view = {element: value for element, _, value in remote.elements.live()}
            book.mark = mark_of(book.view.items())
        self._own[process.name] = live_mark(own.elements)
        self._floors[process.name] = {
            epoch: stamp
            for (cluster, epoch), stamp in self._sent.items()
            if cluster == own.origin[0]
        }
        self.look(process)

    def died(self, process: Process) -> None:
        """A process ends."""
        name = process.name
        del self._books[name], self._own[name], self._former[name]

    # ---- the owner -----------------------------------------------------------------------------

    def sealed(self, process: Process, batch: OwnBatch) -> None:
        """Properties 8, 22, 28 and 47 of a new batch; keeps what the state is at its head."""
        own, cluster, head = process.replica.own, process.cluster, batch.head
        stamps = [entry[1] for entry in batch.entries]
        if batch.last_stamp > batch.ceiling or max(stamps, default=0) > head.stamp:
            raise Violation("8", f"{process.name} issued {batch.last_stamp} above its ceiling")
        former = self._floors[process.name].get(batch.epoch, 0)
        if stamps and stamps[0] <= former and cluster not in self.forked:
            raise Violation(
                "28", f"{process.name} used stamp {stamps[0]}; {former} was sent before"
            )
        if not batch.replace:
            anew = {e[0] for e in batch.entries if not is_decision(e[0])} - process.touched
            if anew:
                raise Violation("47", f"{process.name} stamped anew what did not change: {anew}")
        process.touched.clear()
        mark = self._own[process.name] = moved(self._own[process.name], batch.changes)
        if mark != self._stated(process):
            raise Violation("22", f"{process.name} states what its cluster does not say")
        if len(own.elements) <= 2 * _CREDIT and live_mark(own.elements) != mark:
            raise Violation("22", f"the changes of a batch of {process.name} are not its state")
        self.truth.marks[cluster, head.version, head.root] = mark

    def _stated(self, process: Process) -> Mark:
        """What a process must state: what its cluster says, and what counts as decided."""
        return together(process.stated_mark, process.decided.mark)

    def stored(self, process: Process, head: Head) -> None:
        """A version is on disk: it may be sent, and means one state for ever."""
        known = self._durable.setdefault((process.cluster, head.version), head.root)
        if known != head.root and process.cluster not in self.forked:
            raise Violation("28", f"{process.name} signed two states for {head.version}")

    # ---- what is shown -------------------------------------------------------------------------

    def look(self, process: Process) -> None:
        """Properties 12, 13, 22 and 41 at one process, now."""
        self.checks += 1
        books = self._books[process.name]
        watched = self._watched(process)
        for effect in process.changed:
            self._told(process, effect, books.setdefault(effect.origin, _Book()))
        process.changed.clear()
        for origin in process.dropped:
            self._dropped(process, origin, books.pop(origin, _Book()))
        process.dropped.clear()
        counting = process.decided
        if counting.members or counting.changed:
            self._membership(process, counting)
        for origin, remote in watched:
            head = remote.head
            if head is None:
                continue
            book = books.get(origin)
            if book is None:
                book = books[origin] = _Book()
            if book.head is not head:
                self._committed(process, origin, book, head)
                book.version = remote.elements.version
            elif remote.elements.version is not book.version:
                if remote.elements.version != head.version:
                    raise Violation("12", f"{process.name} moved {origin.cluster} without a head")
                book.version = remote.elements.version

    def _watched(self, process: Process) -> Iterable[tuple[Origin, RemoteOrigin]]:
        """The origins to look at: all, or in a large world what moved and some others in turn."""
        remotes = process.replica.remotes
        if len(remotes) <= _IN_TURN:
            return remotes.items()
        waiting = self._waiting.get(process.name)
        if not waiting:
            waiting = self._waiting[process.name] = list(remotes)
        turn, waiting[-_IN_TURN:] = waiting[-_IN_TURN:], []
        moved = (effect.origin for effect in process.changed)
        return [(o, remotes[o]) for o in dict.fromkeys([*moved, *turn]) if o in remotes]

    def _told(self, process: Process, effect: Changed, book: _Book) -> None:
        take, changes = process.decided.take, effect.changes
        if (process.name, effect.origin) in self.rotten:
            # Consumers hold what they were told, whatever it became here meanwhile.
            changes = tuple(c._replace(before=book.view.get(c.element)) for c in changes)
        for element, before, after, _ in changes:
            if book.view.get(element) != before:
                raise Violation("12", f"{process.name} told a change of what was not shown")
            if after is None:
                del book.view[element]
            else:
                book.view[element] = after
                take(element, after)
        book.mark = moved(book.mark, changes)

    def _dropped(self, process: Process, origin: Origin, book: _Book) -> None:
        """A process keeps nothing of an origin any more; claims may be on their way."""
        if book.view:
            raise Violation("24", f"{process.name} still shows what it kept of {origin.cluster}")
        if book.head is not None:
            former = self._former[process.name]
            former[origin] = max(former.get(origin, ZERO), book.head.version)

    @staticmethod
    def _membership(process: Process, counting: Counting) -> None:
        """Properties 24 and 27 at one process."""
        replica = process.replica
        if counting.changed and not counting.settled(replica.members.table, replica.steering.table):
            raise Violation("27", f"{process.name} goes by another decision than counts")
        counting.changed = False
        for origin, remote in replica.remotes.items():
            if remote.known and not counting.takes(origin.cluster, remote.version.epoch):
                raise Violation("24", f"{process.name} keeps {remote.version} of {origin.cluster}")
        for session in replica.sessions.values():
            foreign = session.cluster != process.cluster
            if session.peer is not None and foreign and counting.forgets(session.cluster):
                raise Violation("24", f"{process.name} hears {session.cluster}, which is forgotten")

    def _committed(self, process: Process, origin: Origin, book: _Book, head: Head) -> None:
        name, cluster = process.name, origin.cluster
        former, book.head = book.head, head
        elements = process.replica.remotes[origin].elements
        truth = self.truth.marks.get((cluster, head.version, head.root))
        if elements.version != head.version or truth is None:
            raise Violation("12", f"{name} shows a head of {cluster} that was never sealed")
        if book.mark != truth:
            raise Violation("12", f"{name} shows a state of {cluster} that it never had")
        book.credit += _CREDIT
        if len(elements) <= book.credit:
            book.credit = 0
            if live_mark(elements) == truth:
                self.rotten.discard((name, origin))
            elif (name, origin) not in self.rotten:
                raise Violation("12", f"{name} holds another state of {cluster} than it told")
        if former is None:
            return
        back = head.version < former.version
        if head.version == former.version:
            # Of two states that two writers signed for it the larger one stays, whenever issued.
            same = head.same_state(former)
            back = head.issued_at < former.issued_at if same else former.outdoes(head)
        if back:
            raise Violation("13", f"{name} went back from {former.version} to {head.version}")

    def hears(self, process: Process, number: int, frame: bytes) -> None:
        """A frame arrives: an admission is a decision that no origin need have told."""
        session = process.replica.sessions.get(number)
        if frame[2] == _ADMISSION and session is not None and session.peer is not None:
            told = read_once(frame)
            assert isinstance(told, m.Admission)  # noqa: S101 - its type says so
            cell = Cell(told.order, told.by, ADMIT, told.minimum)
            process.decided.decide(process.cluster, cell)

    # ---- what is sent --------------------------------------------------------------------------

    def sends(self, process: Process, number: int, frame: bytes) -> None:
        """Properties 14, 28 and 41 of a frame that leaves a process."""
        kind = frame[2]
        if kind in {_TRANSFER, _PACKED}:
            message = read_once(frame)
            assert isinstance(message, m.Transfer)  # noqa: S101 - its type says so
            self.entries_sent += len(message.entries)
            self._transfer(process, message)
        elif kind in {_BUCKETS, _BUCKET_ENTRIES}:
            message = read_once(frame)
            assert isinstance(message, m.Buckets | m.BucketEntries)  # noqa: S101 - as above
            self._lends(process, message)
        elif kind in {_HEADS, _WANT}:
            message = read_once(frame)
            adverts = message.adverts if isinstance(message, m.Heads) else (message,)
            for claim in adverts:
                assert isinstance(claim, m.Advert | m.Want)  # noqa: S101 - as above
                if not (isinstance(claim, m.Want) and self._staged(process, claim)):
                    self._claims(process, claim.origin, claim.version)
            self._bounded(process, number)

    def _lends(self, process: Process, told: m.Buckets | m.BucketEntries) -> None:
        """Buckets are of what may be sent as a transfer; of those asked for nobody claims more."""
        if isinstance(told, m.Buckets):
            origin, version = told.head.origin, told.head.version
        else:
            self.entries_sent += len(told.entries)
            origin, version = told.origin, Version(told.epoch, told.to)
        name, cluster = process.name, origin.cluster
        if not (cluster == process.cluster or process.decided.takes(cluster, version.epoch)):
            raise Violation("24", f"{name} lends {version} of {cluster}, which is not taken")
        if self._reached(process, origin) < version:
            raise Violation("14", f"{name} lends {version} of {cluster} before it has it for good")

    def _reached(self, process: Process, origin: Origin) -> Version:
        if origin.cluster == process.cluster:
            kept = process.disk.own
            return Version(0, 0) if kept is None else kept.head.version
        remote = process.replica.remotes.get(origin)
        return Version(0, 0) if remote is None else remote.version

    @staticmethod
    def _staged(process: Process, want: m.Want) -> bool:
        """Whether what is wanted may continue what was staged: no more than somebody told of."""
        remote = process.replica.remotes.get(want.origin)
        return remote is not None and want.version <= remote.supply.highest

    def _claims(self, process: Process, origin: Origin, version: Version) -> None:
        own = origin.cluster == process.cluster
        if version <= self._former[process.name].get(origin, ZERO):
            return  # it was written down before its cluster was forgotten
        if own and self._reached(process, origin) < version:
            # An enquiry names a version of our own origin that others hold; anything else is a lie.
            sessions = process.replica.sessions.values()
            if not any(origin in session.enquiries for session in sessions):
                raise Violation("28", f"{process.name} tells of {version}, which is not on disk")
        if not own and self._reached(process, origin) < version:
            raise Violation("14", f"{process.name} claims {version} of {origin.cluster}")

    def _transfer(self, process: Process, sent: m.Transfer) -> None:
        name, cluster = process.name, sent.origin.cluster
        top = sent.entries[-1][1] if sent.entries else sent.start
        if sent.head is None and sent.to != top:
            raise Violation("14", f"{name} claims {sent.to} of {cluster}, but sent {top}")
        version = Version(sent.epoch, sent.to)
        if not (cluster == process.cluster or process.decided.takes(cluster, sent.epoch)):
            raise Violation("24", f"{name} sends {version} of {cluster}, which is not taken")
        if self._reached(process, sent.origin) < version:
            rule = "28" if cluster == process.cluster else "14"
            raise Violation(rule, f"{name} sends {version} of {cluster} before it has it for good")
        if cluster == process.cluster:
            key = (cluster, sent.epoch)
            self._sent[key] = max(self._sent.get(key, 0), sent.to)
        elif not process.replica.announcements.relaying:
            raise Violation("13", f"{name} relays {cluster} before its view is current")

    @staticmethod
    def _bounded(process: Process, number: int) -> None:
        session = process.replica.sessions.get(number)
        most = len(process.replica.remotes) + 1
        if (
            session is not None
            and not session.closing
            and max(len(session.ready), len(session.wanting)) > most
        ):
            raise Violation("41", f"a session of {process.name} keeps more than its origins")

    # ---- at rest -------------------------------------------------------------------------------

    def at_rest(self, processes: Mapping[str, Process]) -> None:
        """What must hold once everything is mended: everybody shows what every cluster says.

        Except what is kept of a cluster that has forgotten who keeps it.
        """
        for process in processes.values():
            for origin, remote in process.replica.remotes.items():
                owner = processes[origin.cluster]
                if owner.decided.forgets(process.cluster):
                    continue
                if live_mark(remote.elements) != self._stated(owner):
                    raise Violation(
                        "45", f"{process.name} does not show what {origin.cluster} says"
                    )
