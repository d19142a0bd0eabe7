"""Acts on decisions about members: states them again, drops what is forgotten, writes new ones.

What counts is worked out anew whenever a cell changed (:mod:`replicator.membership`).  Whatever
counts here is then stated in our own origin too, unchanged, before anything is dropped: so it
survives the origin it came in, and members that forgot each other's authors still agree.

Holds no sockets and no clock; sessions are closed by the replica.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from crdt import Change, Origin
from replicator.collection import Acknowledged
from replicator.effects import Changed, Drop, Effect, Notice, Remember, Wake
from replicator.errors import InputError, NotGood, ProtocolError
from replicator.kinds import ADMIT, FORGET
from replicator.membership import Cell, decided, element_of, is_forgotten, merged, takes, value_of
from replicator.messages import Admission, Advert
from replicator.own_origin import MEMBERS, OwnOrigin
from replicator.remote_origin import RemoteOrigin
from replicator.session import Session
from replicator.subscriptions import Subscriptions

ALIVE_SECONDS = 60.0
"""A cluster that gave a sign of life within this time cannot be forgotten."""
CELL_LIMIT = 4096
"""Clusters about which one member may state something, so that none can make all others swell.

Of more the first by name count.
"""


class Decided(NamedTuple):
    """What an operator's decision comes to."""

    cell: Cell | None
    """To be learned; None when it is so already."""
    elements: int
    services: int
    """How many of each go from the view here."""


def _counted(cells: Mapping[str, Cell]) -> Mapping[str, Cell]:
    if len(cells) <= CELL_LIMIT:
        return cells
    return {subject: cells[subject] for subject in sorted(cells)[:CELL_LIMIT]}


class Members:
    """Decisions about members, as one replica knows them."""

    def __init__(
        self,
        own: OwnOrigin,
        remotes: dict[Origin, RemoteOrigin],
        sessions: dict[int, Session],
        subscriptions: Subscriptions,
        uids: dict[str, str],
        acknowledged: dict[str, Acknowledged],
    ) -> None:
        """Decide over the replica's own parts; what is forgotten is not among ``remotes`` then."""
        self._own = own
        self._remotes = remotes
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._uids = uids
        self._acknowledged = acknowledged
        self._stated = dict(own.index.cells)
        self.wiped: set[str] = set()
        """Clusters whose state was dropped in this life: nothing of theirs need be kept."""
        self.table: dict[str, Cell] = {}
        """Subject to the cell that counts."""
        self.table = self._gathered({})
        self.alive_seconds = ALIVE_SECONDS
        self._began: float | None = None
        self._at_start = [o for o, r in remotes.items() if not self.takes(o, r.version.epoch)]
        for origin in self._at_start:
            del remotes[origin]
            self.wiped.add(origin.cluster)

    def _gathered(self, news: Mapping[str, Cell]) -> dict[str, Cell]:
        remotes = (_counted(remote.index.cells) for remote in self._remotes.values())
        return merged([self.table, self._stated, *remotes, news])

    # ---- what is so ----------------------------------------------------------------------------

    def forgotten(self, cluster: str) -> bool:
        """Whether a cluster is forgotten."""
        return is_forgotten(self.table.get(cluster))

    def all_forgotten(self) -> list[str]:
        """Forgotten clusters in order."""
        return sorted(filter(self.forgotten, self.table))

    def takes(self, origin: Origin, epoch: int) -> bool:
        """Whether state of an origin's ``epoch`` may be taken, shown and relayed.

        That of our own cluster always may: whatever others decided, its agents stay together.
        """
        return origin == self._own.origin or takes(self.table.get(origin.cluster), epoch)

    def refusal(self, cluster: str) -> ProtocolError:
        """What a forgotten cluster is told."""
        by = self.table[cluster].by
        cure = f"run `replicator admit {cluster}` at a member to have it back"
        detail = f"{cluster} was forgotten by {by}"
        return ProtocolError(detail, cure=cure, code="cluster_forgotten")

    def check(self, cluster: str) -> None:
        """Raise :class:`ProtocolError` (``cluster_forgotten``) for a forgotten other cluster."""
        if cluster != self._own.origin.cluster and self.forgotten(cluster):
            raise self.refusal(cluster)

    def tell(self, session: Session) -> list[Effect]:
        """Tell a peer that it is admitted: two that forgot each other take nothing of each other.

        So neither would ever learn from the other's origin that it is to open a higher epoch.
        """
        cell = self.table.get(session.cluster)
        if cell is None or is_forgotten(cell) or session.cluster == self._own.origin.cluster:
            return []
        session.say(Admission(cell.order, cell.minimum, cell.by))
        return [Wake(session.number)]

    def told(self, message: Admission) -> dict[str, Cell]:
        """What a peer says of our own admission, to be learned like any decision; {} if known."""
        me, cell = self._own.origin.cluster, Cell(message.order, message.by, ADMIT, message.minimum)
        known = self.table.get(me)
        return {} if known is not None and known >= cell else {me: cell}

    # ---- decisions -----------------------------------------------------------------------------

    def _life(self, cluster: str, now: float) -> float | None:
        """Seconds since the last sign of life of a cluster, None if there was none in this life."""
        peers = self._sessions.values()
        if any(session.cluster == cluster and session.peer is not None for session in peers):
            return 0.0
        seen = [
            remote.fresh_at
            for origin, remote in self._remotes.items()
            if origin.cluster == cluster and remote.fresh_at is not None
        ]
        return now - max(seen) if seen else None

    def _may_forget(self, cluster: str, now: float) -> None:
        known = {*self._uids, *self._acknowledged, *(o.cluster for o in self._remotes)}
        if cluster not in known | self.table.keys():
            message = f"no cluster {cluster} was ever heard of here"
            raise InputError(message, cure="see replicator clusters", code="unknown_cluster")
        age, wait = self._life(cluster, now), self.alive_seconds
        if age is not None and age < wait:
            message = f"{cluster} is alive: its last sign of life is {age:.0f} s old"
            cure = f"stop its agent, wait {wait:.0f} s, and ask again"
            raise NotGood(message, cure=cure, code="cluster_alive")
        began = now if self._began is None else self._began
        if age is None and now - began < wait:
            message = f"this agent has run for {now - began:.0f} s only, so {cluster} may be alive"
            cure = f"ask again {wait:.0f} s after the start, or another agent"
            raise NotGood(message, cure=cure, code="cluster_alive")

    def decide(self, decision: str, cluster: str, now: float) -> Decided:
        """What an operator wants of ``cluster``; nothing is changed yet.

        Raises :class:`NotGood` for ourselves (``cluster_is_self``) and for forgetting one that
        shows signs of life (``cluster_alive``), and where another agent leads (``standing_by``);
        :class:`InputError` for one never heard of.
        """
        if not self._own.leading:
            message = "this agent stands by: it writes nothing, decisions neither"
            raise NotGood(message, cure="ask the cluster's other agent", code="standing_by")
        if cluster == self._own.origin.cluster:
            message = f"{cluster} is the cluster asked; it cannot decide about itself"
            raise NotGood(message, cure="ask another cluster's agent", code="cluster_is_self")
        if self.forgotten(cluster) == (decision == FORGET):
            return Decided(None, 0, 0)
        mine = [remote for origin, remote in self._remotes.items() if origin.cluster == cluster]
        elements = services = 0
        if decision == FORGET:
            self._may_forget(cluster, now)
            elements = sum(remote.elements.live_count for remote in mine)
            services = len({key for remote in mine for key in remote.index.services()})
        epoch = max((remote.version.epoch for remote in mine), default=0)
        cell = decided(decision, self._own.origin.cluster, self.table.get(cluster), epoch)
        return Decided(cell, elements, services)

    # ---- learning ------------------------------------------------------------------------------

    def begin(self, now: float, wall_ns: int) -> list[Effect]:
        """Once per life, before anything else: act on what the journal held."""
        if self._began is not None:
            return []
        self._began = now
        self._restate(self.table, wall_ns)
        self._fence()
        return self.dropped()

    def dropped(self) -> list[Effect]:
        """Once per life, before anything can be taken: end what the journal should not hold."""
        origins, self._at_start = sorted(self._at_start), []
        return [Drop(origin) for origin in origins]

    def resume(self, wall_ns: int) -> None:
        """We lead now: state what counts in what our origin has become."""
        self._stated = dict(self._own.index.cells)
        self.table = self._gathered({})
        self._restate(self.table, wall_ns)

    def least_epoch(self) -> int:
        """The least epoch of our own that others take."""
        cell = self.table.get(self._own.origin.cluster)
        return 0 if cell is None or is_forgotten(cell) else cell.minimum + 1

    def learn(
        self,
        news: Mapping[str, Cell],
        now: float,
        wall_ns: int,
        reject: Callable[[Session, ProtocolError, float], list[Effect]],
        advertised: Callable[[Session, Advert, float], list[Effect]],
    ) -> list[Effect]:
        """Cells may have changed, and ``news`` was decided here: act on what counts now.

        It is stated in our own origin first.  ``reject`` ends a session, ``advertised`` looks at an
        advert again.
        """
        former, self.table = self.table, self._gathered(news)
        changed = {s: cell for s, cell in self.table.items() if former.get(s) != cell}
        self._restate(changed, wall_ns)
        self._fence()
        effects: list[Effect] = []
        for subject in sorted(changed):
            effects += self._settle(subject)
            refused = None
            if self.forgotten(subject) and subject != self._own.origin.cluster:
                refused = self.refusal(subject)
            for session in self._sessions.values():
                if refused is not None and session.cluster == subject and not session.closing:
                    effects += reject(session, refused, now)
                elif session.cluster == subject and session.peer is not None:
                    effects += self.tell(session)
                adverts = [a for o, a in session.adverts.items() if o.cluster == subject]
                for advert in adverts:
                    effects += advertised(session, advert, now)
        return effects

    def _restate(self, cells: Mapping[str, Cell], wall_ns: int) -> None:
        """State these in our own origin, as far as there is room."""
        for subject, cell in cells.items():
            if subject in self._stated or len(self._stated) < CELL_LIMIT:
                self._stated[subject] = cell
        me = self._own.origin.cluster
        stated = {element_of(me, subject): value_of(cell) for subject, cell in self._stated.items()}
        self._own.state(MEMBERS, stated, wall_ns)

    def _fence(self) -> None:
        """Open a higher epoch of our own if only that is taken of us since we were admitted."""
        cell = self.table.get(self._own.origin.cluster)
        if cell is None or is_forgotten(cell) or takes(cell, self._own.epoch):
            return
        if not self._own.leading:
            return
        self._own.open_epoch(cell.minimum)

    def _settle(self, subject: str) -> list[Effect]:
        """Drop what is not taken of ``subject`` any more, and release its id for another uid."""
        cell = self.table[subject]
        fields: dict[str, object] = {"cluster": subject, "by": cell.by, "order": cell.order}
        event = "cluster_forgotten" if is_forgotten(cell) else "cluster_admitted"
        effects: list[Effect] = [Notice(event, fields, serious=True)]
        if subject == self._own.origin.cluster:
            return effects
        if self._uids.pop(subject, None) is not None:
            effects.append(Remember(f"uid/{subject}", b""))
        if is_forgotten(cell):
            self._acknowledged.pop(subject, None)
        for origin, remote in sorted(self._remotes.items()):
            if origin.cluster == subject and not self.takes(origin, remote.version.epoch):
                effects += self._drop(remote)
        return effects

    def _drop(self, remote: RemoteOrigin) -> list[Effect]:
        origin = remote.origin
        effects = self._subscriptions.stop(remote)
        for session in self._sessions.values():
            session.enquiries.discard(origin)
            session.untold.discard(origin)
        del self._remotes[origin]
        if remote.known:
            self.wiped.add(origin.cluster)
            gone = sorted(remote.elements.live())
            changes = tuple(Change(element, value, None, stamp) for element, stamp, value in gone)
            services = frozenset(remote.index.all_services())
            effects += [Drop(origin), Changed(origin, services, changes, None)]
        return effects
