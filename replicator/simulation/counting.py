"""What must count as decided at one process, worked out beside the core from what it was told.

Of all cells that a process ever held, was told of or decided itself, the greatest about a subject
counts, and its own origin must state exactly those.  Only the meaning of bytes is asked of the core
(:mod:`replicator.membership`, :mod:`replicator.policies`), never what it makes of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from crdt import Change
from replicator import membership, policies
from replicator.codec import decode_head
from replicator.simulation.disk import Disk, Rows
from replicator.simulation.marks import NOTHING, Mark, moved


def is_decision(element: bytes) -> bool:
    """Whether an element states a decision: about a member or about traffic."""
    return membership.is_member(element) or policies.is_policy(element)


def _live(rows: Rows) -> list[tuple[bytes, bytes]]:
    return [(element, value) for element, _, removed, value in rows.values() if not removed]


def counted(me: str, disk: Disk) -> Counting:
    """What counts at the start of a process of cluster ``me``.

    Who belongs is decided by all there is on its disk; what is then dropped decides nothing more.
    """
    found = Counting(me)
    for element, value in _live(disk.rows):
        found.take(element, value)
    remotes = [(origin, store.head, _live(rows)) for origin, (store, rows) in disk.remotes.items()]
    for _, _, items in remotes:
        for element, value in items:
            if membership.is_member(element):
                found.take(element, value)
    for origin, head, items in remotes:
        if found.takes(origin.cluster, decode_head(head).epoch):
            for element, value in items:
                found.take(element, value)
    return found


class Counting:
    """The decisions that count at one process."""

    __slots__ = ("_me", "changed", "mark", "members", "policies")

    def __init__(self, me: str) -> None:
        """Nothing decided; ``me`` is the cluster of the process."""
        self._me = me
        self.members: dict[str, membership.Cell] = {}
        self.policies: policies.Table = {}
        self.mark: Mark = NOTHING
        """Fingerprint of what the process must state for it."""
        self.changed = False
        """Something else counts than when this was last made False."""

    def take(self, element: bytes, value: bytes) -> None:
        """Something live that somebody states; what is no decision moves nothing."""
        if membership.is_member(element):
            self.decide(membership.subject_of(element), membership.cell_of(value))
        elif policies.is_policy(element):
            cell = policies.cell_of(element, value)
            if cell is not None:
                self.steer(policies.topic_of(element), cell)

    def decide(self, subject: str, cell: membership.Cell) -> None:
        """A decision about a member."""
        known = self.members.get(subject)
        if known is None or known < cell:
            self.members[subject] = cell
            before = None if known is None else membership.value_of(known)
            element = membership.element_of(self._me, subject)
            self._move(element, before, membership.value_of(cell))

    def steer(self, topic: bytes, cell: policies.Cell) -> None:
        """A decision about traffic."""
        known = self.policies.get(topic)
        if known is None or known < cell:
            self.policies[topic] = cell
            before = None if known is None else known.value
            self._move(policies.element_of(self._me, topic), before, cell.value)

    def _move(self, element: bytes, before: bytes | None, after: bytes) -> None:
        self.mark = moved(self.mark, [Change(element, before, after, 0)])
        self.changed = True

    def settled(self, members: Mapping[str, membership.Cell], policies_: policies.Table) -> bool:
        """Whether a process goes by just these decisions."""
        return members == self.members and policies_ == self.policies

    def takes(self, cluster: str, epoch: int) -> bool:
        """Whether state of ``epoch`` of another cluster may be shown."""
        return membership.takes(self.members.get(cluster), epoch)

    def forgets(self, cluster: str) -> bool:
        """Whether another cluster is forgotten."""
        return membership.is_forgotten(self.members.get(cluster))
