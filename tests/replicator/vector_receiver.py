"""A second receiver of one origin, written from ``docs/protocol.md`` sections 5 and 10 alone.

As plain as :mod:`tests.replicator.vector_reader`: a state is a dictionary, a root is computed from
nothing.  Heads are verified with a key that the caller took from the certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.replicator.vector_reader import read_frame, record, root, signed_bytes

State = dict[bytes, tuple[int, int, bytes]]
"""element -> (stamp, op, value)."""
EPOCH, BASE, STAMP, FLOOR, COUNT, ROOT, ISSUED, SIGNATURE = 2, 3, 4, 5, 6, 7, 8, 11


def state_of(head: list[Any]) -> tuple[bytes, int, int]:
    """By what two heads of one version are compared: root, floor, count."""
    return (bytes(head[ROOT]), head[FLOOR], head[COUNT])


def root_of(state: State) -> bytes:
    """The root of a state."""
    return root(record(element, *stored) for element, stored in state.items())


@dataclass
class Receiver:
    """What is committed of one origin, and what is staged."""

    signed_by_origin: Callable[[bytes, bytes], bool]
    """Whether a signature over bytes is the origin's."""
    version: tuple[int, int] = (0, 0)
    state: State = field(default_factory=dict)
    head: list[Any] | None = None
    staged: State | None = None
    mode: tuple[int, bool] = (0, False)
    position: int = 0

    def take(self, frame: bytes) -> str:
        """The outcome of one Transfer."""
        name, fields = read_frame(frame)
        assert name == "Transfer"
        _, _, epoch, snapshot, start, to, entries, head = fields
        committed, known = self.head, head is not None and self.at(head) == self.version
        if known and committed and not (snapshot and state_of(head) > state_of(committed)):
            self.staged = None
            return self.renew(head)
        if not snapshot and (epoch, to) <= self.version:
            return "ignored"
        if (snapshot and start == 0) or self.staged is None or self.mode != (epoch, snapshot):
            self.staged, self.mode = {}, (epoch, snapshot)
            self.position = 0 if snapshot else self.version[1]
        if start > self.position:
            self.staged = None
            return "again"
        for element, stamp, op, value in entries:
            if element not in self.staged or self.staged[element][0] < stamp:
                self.staged[element] = (stamp, op, value)
        self.position = max(self.position, to)
        return "staged" if head is None else self.finish(head)

    @staticmethod
    def at(head: list[Any]) -> tuple[int, int]:
        """The version of a head."""
        return (head[EPOCH], head[STAMP])

    def own_state(self) -> tuple[bytes, int, int]:
        """What is committed, as :func:`state_of` has it."""
        floor = 0 if self.head is None else self.head[FLOOR]
        return (root_of(self.state), floor, len(self.state))

    def genuine(self, head: list[Any]) -> bool:
        """Whether the origin signed this head."""
        return self.signed_by_origin(head[SIGNATURE], signed_bytes(head))

    def renew(self, head: list[Any]) -> str:
        """A head at the committed version."""
        assert self.head is not None
        same = [head[at] == self.head[at] for at in (FLOOR, COUNT, ROOT)] == [True] * 3
        if same and head[ISSUED] <= self.head[ISSUED]:
            return "ignored"
        if not self.genuine(head):
            return "bad_signature"
        if not same:
            return "equivocation"
        self.head = head
        return "renewed"

    def finish(self, head: list[Any]) -> str:
        """Try to commit what is staged."""
        staged, self.staged = self.staged, None
        assert staged is not None
        if not self.genuine(head):
            return "bad_signature"
        version, (epoch, snapshot) = self.at(head), self.mode
        outdone = snapshot and version == self.version and state_of(head) > self.own_state()
        if version <= self.version and not outdone:
            return "ignored"
        if epoch != head[EPOCH] or self.position < head[STAMP]:
            return "again"
        if not snapshot and not self.continues(head):
            return "again"
        seen = -1 if snapshot else self.version[1]
        new = {} if snapshot else dict(self.state)
        new.update({k: entry for k, entry in staged.items() if seen < entry[0] <= head[STAMP]})
        new = {k: entry for k, entry in new.items() if not (entry[1] and entry[0] <= head[FLOOR])}
        if len(new) != head[COUNT] or root_of(new) != head[ROOT]:
            return "mismatch"
        self.version, self.state, self.head = version, new, head
        return "committed"

    def continues(self, head: list[Any]) -> bool:
        """Whether a delta may lead from the committed version to this head."""
        epoch, stamp = self.version
        if self.version == (0, 0) or stamp < head[FLOOR]:
            return False
        if epoch == head[EPOCH]:
            return True
        base = head[BASE]
        if base is None or base[0] != epoch or not stamp <= base[1] <= head[STAMP]:
            return False
        return stamp < base[1] or bytes(base[2]) == root_of(self.state)
