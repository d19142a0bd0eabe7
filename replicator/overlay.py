"""Whom to keep dialled: everybody in a small clusterset, some near and some far in a large one.

Up to 32 clusters each dials each.  Beyond that an agent keeps links to the eight nearest by round
trip, to two far ones that a hash of both names picks, and to its successor on a ring of all names
in hash order.  Links carry data both ways, so the ring alone connects everybody who has the same
peers configured; the others keep paths short when some are gone.  Of those whose round trip is not
known yet one at a time is tried, so that in time everybody knows who is near.

Pure choices from what is known; dialling and measuring are :mod:`replicator.links`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b

from replicator.session import Session

MESH_CLUSTERS = 32
"""So many clusters, ourselves included, are linked each with each."""
NEAR, FAR = 8, 2
_STAYS = 0.8
"""A present neighbour gives way only to one whose round trip is shorter by this factor."""


def _place(*names: str) -> bytes:
    return blake2b("/".join(names).encode(), digest_size=16).digest()


def _successor(me: str, others: Collection[str]) -> str:
    """The next cluster on the ring of all in hash order."""
    mine = _place(me)
    return min(others, key=lambda name: (_place(name) <= mine, _place(name)))


def _picked(
    me: str, others: Collection[str], rtts: Mapping[str, int], kept: Collection[str]
) -> set[str]:
    """The choice among ``others``, all of which answer as far as is known."""
    by_hash = sorted(others, key=lambda name: _place(me, name))
    measured = [name for name in others if name in rtts]
    measured.sort(key=lambda name: (rtts[name] * (_STAYS if name in kept else 1.0), name))
    unknown = [name for name in by_hash if name not in rtts]
    near = measured[:NEAR]
    tried = unknown[: max(1, NEAR - len(near))]
    return {_successor(me, others), *by_hash[:FAR], *near, *tried}


def chosen(
    me: str,
    others: Collection[str],
    rtts: Mapping[str, int],
    *,
    kept: Collection[str] = (),
    lost: Collection[str] = (),
) -> frozenset[str]:
    """The clusters among ``others`` that ``me`` keeps a link to.

    ``rtts`` are round trips in nanoseconds of those ever measured, ``kept`` is the present choice,
    ``lost`` are those that do not answer: they are dialled as before, and others beside them.
    """
    if len(others) < MESH_CLUSTERS:
        return frozenset(others)
    found = _picked(me, others, rtts, kept)
    answering = [name for name in others if name not in lost]
    if lost and answering:
        found |= _picked(me, answering, rtts, kept)
    return frozenset(found)


class Overlay:
    """Whom one agent keeps dialled at present, and what it has measured."""

    def __init__(self, me: str, others: Collection[str]) -> None:
        """Nothing measured yet; ``others`` are the configured peers."""
        self._me = me
        self._rtts: dict[str, int] = {}
        self.chosen = chosen(me, others, {})

    def review(
        self, others: Collection[str], sessions: Iterable[Session], lost: Collection[str]
    ) -> list[int]:
        """Choose anew; returns the sessions we dialled and that are not needed any more.

        A link that the other side dialled is its choice, and always kept.
        """
        ours: list[Session] = []
        for session in sessions:
            if session.peer is not None and session.rtt_ns:
                self._rtts[session.cluster] = session.rtt_ns
                ours += [session] if session.dialled else []
        self.chosen = chosen(self._me, others, self._rtts, kept=self.chosen, lost=lost)
        needed = self.chosen
        return [s.number for s in ours if s.cluster in others and s.cluster not in needed]
