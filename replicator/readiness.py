"""When this agent may publish, delete, relay, and call itself ready.  Pure; readings are arguments.

After a restart the last committed view may be old, and after a disk loss there is none.  Until
heads of min(2, configured) peers have been reached, at the latest 10 s after the start (flagged),
consumers are only added to.  With an empty state folder the first own head waits until every
configured peer has told what it holds, at the latest 30 s, so that an epoch met there is exceeded
and nothing flaps to empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crdt import ZERO, Origin
from replicator.remote_origin import RemoteOrigin
from replicator.session import Session

_QUORUM = 2
_STATIC_SECONDS = 10.0
_EMPTY_STATE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Start:
    """How this life began."""

    at: float
    """Monotonic time of the start."""
    empty_state: bool
    """The state folder held nothing of ours."""
    configured: frozenset[str]
    """Configured peers."""


def answered_by(sessions: Iterable[Session]) -> frozenset[str]:
    """Peers that told what they hold."""
    return frozenset(session.cluster for session in sessions if session.answered)


def caught_up_with(
    sessions: Iterable[Session], remotes: Mapping[Origin, RemoteOrigin]
) -> frozenset[str]:
    """Peers whose own head, as they advertised it, is committed here in this life."""
    return frozenset(
        session.cluster
        for session in sessions
        for origin, advert in session.adverts.items()
        if origin.cluster == session.cluster
        and origin in remotes
        and remotes[origin].version >= advert.version > ZERO
    )


def may_publish(start: Start, answered: frozenset[str], now: float) -> bool:
    """Whether the first own head may be issued, given :func:`answered_by`."""
    if not start.empty_state or start.configured <= answered:
        return True
    return now - start.at >= _EMPTY_STATE_SECONDS


def is_current(start: Start, caught_up: frozenset[str], now: float) -> bool:
    """Whether the view may delete, downgrade and relay, given :func:`caught_up_with`."""
    if len(caught_up & start.configured) >= min(_QUORUM, len(start.configured)):
        return True
    return now - start.at >= _STATIC_SECONDS
