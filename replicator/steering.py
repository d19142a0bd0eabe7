"""Acts on policies: states them again, tells which services they touch, and writes new ones.

What counts is worked out anew whenever a cell changed (:mod:`replicator.policies`), and whatever
counts here is then stated in our own origin too, unchanged.  Cells of our own that cannot be read
(a newer version wrote them) stay as they are.

Holds no sockets and no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from clusters.model import ServiceKey
from crdt import Origin
from replicator.collection import Acknowledged
from replicator.effects import Effect, Notice, Review
from replicator.errors import InputError, NotGood
from replicator.members import Members
from replicator.own_origin import POLICIES, OwnOrigin
from replicator.policies import (
    AS_CONFIGURED,
    DRAIN,
    FULL_WEIGHT,
    STALE,
    UNDRAINED,
    Cell,
    Rules,
    Setting,
    Subject,
    Table,
    decided,
    element_of,
    merged,
    subject_of,
    topic_about,
)
from replicator.remote_origin import RemoteOrigin
from replicator.service_index import ServiceIndex

CELL_LIMIT = 4096
"""Policies one member may state, so that none can make all others swell; the first by topic."""


def _counted(cells: Mapping[bytes, Cell]) -> Mapping[bytes, Cell]:
    if len(cells) <= CELL_LIMIT:
        return cells
    return {topic: cells[topic] for topic in sorted(cells)[:CELL_LIMIT]}


class Steering:
    """Policies, as one replica knows them."""

    def __init__(
        self,
        own: OwnOrigin,
        remotes: Mapping[Origin, RemoteOrigin],
        members: Members,
        uids: Mapping[str, str],
        acknowledged: Mapping[str, Acknowledged],
    ) -> None:
        """Decide over the replica's own parts."""
        self._own = own
        self._remotes = remotes
        self._members = members
        self._uids = uids
        self._acknowledged = acknowledged
        self._stated = dict(own.index.policies)
        self._unread = dict(own.index.unread)
        self._begun = False
        self.table: Table = {}
        """Topic to the cell that counts."""
        self.table = self._gathered({})
        self.rules = Rules(self.table)
        """What :attr:`table` says."""

    def _gathered(self, news: Mapping[bytes, Cell]) -> Table:
        remotes = (_counted(remote.index.policies) for remote in self._remotes.values())
        return merged([self.table, self._stated, *remotes, news])

    @property
    def not_understood(self) -> int:
        """How many policies are kept and not acted on, since this version does not know them."""
        unread = sum(len(remote.index.unread) for remote in self._remotes.values())
        return self.rules.unknown + unread

    # ---- learning ------------------------------------------------------------------------------

    def begin(self, wall_ns: int) -> None:
        """With every tick: state what counts once we lead, at the start of a life or later."""
        if self._own.leading and not self._begun:
            self._stated = dict(self._own.index.policies)
            self._unread = dict(self._own.index.unread)
            self._restate(self.table, wall_ns)
        self._begun = self._own.leading

    def learn(self, news: Mapping[bytes, Cell], wall_ns: int) -> list[Effect]:
        """Cells may have changed, and ``news`` was decided here: state and tell what counts now."""
        former, self.table = self.table, self._gathered(news)
        changed = {t: cell for t, cell in self.table.items() if former.get(t) != cell}
        if not changed:
            return []
        self._restate(changed, wall_ns)
        before, self.rules = self.rules.settings, Rules(self.table)
        effects: list[Effect] = []
        touched: set[ServiceKey] = set()
        for topic in sorted(changed):
            subject = subject_of(topic)
            if subject is None or before.get(subject) == self.rules.settings.get(subject):
                continue
            touched |= self.services_of(subject)
            effects.append(self._notice(subject, changed[topic]))
        return [*effects, Review(frozenset(touched))] if touched else effects

    def _notice(self, subject: Subject, cell: Cell) -> Notice:
        fields: dict[str, object] = dict(subject._asdict())
        fields |= {"setting": self.rules.settings.get(subject), "by": cell.by, "order": cell.order}
        return Notice("policy_decided", fields)

    def _restate(self, cells: Mapping[bytes, Cell], wall_ns: int) -> None:
        """State these in our own origin, as far as there is room and we lead."""
        if not self._own.leading:
            return
        for topic, cell in cells.items():
            if topic in self._stated or len(self._stated) < CELL_LIMIT:
                self._stated[topic] = cell
        if not self._stated and not self._unread:
            return
        me = self._own.origin.cluster
        stated = {element_of(me, topic): cell.value for topic, cell in self._stated.items()}
        self._own.state(POLICIES, self._unread | stated, wall_ns)

    def services_of(self, subject: Subject) -> AbstractSet[ServiceKey]:
        """Services whose writing, here or elsewhere, a decision about ``subject`` may change."""
        if subject.key is not None:
            return {subject.key}
        return set().union(*(index.all_services() for index in self._indexes(subject.cluster)))

    def _indexes(self, cluster: str) -> list[ServiceIndex]:
        """What a cluster states, ours too; of all clusters for ""."""
        found = [r.index for o, r in self._remotes.items() if cluster in ("", o.cluster)]
        if cluster in ("", self._own.origin.cluster):
            found.append(self._own.index)
        return found

    # ---- deciding ------------------------------------------------------------------------------

    def decide(self, subject: Subject, setting: Setting) -> Cell | None:
        """The cell for what an operator wants, to be learned; None when it is so already.

        Raises :class:`InputError` for a cluster or a service never heard of (``unknown_cluster``,
        ``unknown_service``), :class:`NotGood` for a forgotten cluster (``cluster_forgotten``),
        beyond the limit (``too_many_policies``) and where another agent leads (``standing_by``).
        """
        if not self._own.leading:
            message = "this agent stands by: it writes nothing, decisions neither"
            raise NotGood(message, cure="ask the cluster's other agent", code="standing_by")
        topic = topic_about(subject)
        known = self.table.get(topic)
        if known is None:
            self._check(subject)
        if self.rules.settings.get(subject, _default(subject)) == setting:
            return None
        if topic not in self._stated and len(self._stated) >= CELL_LIMIT:
            message = f"{CELL_LIMIT} policies are stated here already"
            raise NotGood(message, cure="decide about whole clusters", code="too_many_policies")
        return decided(setting, self._own.origin.cluster, known)

    def check_cluster(self, cluster: str) -> None:
        """Raise :class:`NotGood` for one forgotten, :class:`InputError` for one never heard of."""
        me = self._own.origin.cluster
        if self._members.forgotten(cluster):
            told = self._members.refusal(cluster)
            raise NotGood(told.message, cure=told.cure, code=told.code)
        known = {me, *self._uids, *self._acknowledged, *(o.cluster for o in self._remotes)}
        if cluster not in known:
            message = f"no cluster {cluster} was ever heard of here"
            raise InputError(message, cure="see replicator clusters", code="unknown_cluster")

    def _check(self, subject: Subject) -> None:
        cluster, key = subject.cluster, subject.key
        if cluster:
            self.check_cluster(cluster)
        if key is None:
            return
        if not any(key in index.all_services() for index in self._indexes(cluster)):
            whose = f" of {cluster}" if cluster else ""
            message = f"no service {key}{whose} is known here"
            raise InputError(message, cure="see replicator services", code="unknown_service")


def _default(subject: Subject) -> Setting | None:
    """What holds without a decision; of the weight of a service, that of its cluster."""
    if subject.what == DRAIN:
        return UNDRAINED
    if subject.what == STALE:
        return None if subject.service else AS_CONFIGURED
    return None if subject.service else FULL_WEIGHT
