"""When this agent may publish, delete, relay, and call itself ready.  Pure; readings are arguments.

After a restart the last committed view may be old, and after a disk loss there is none.  Until
heads of min(2, configured) peers have been reached, at the latest 10 s after the start (flagged),
consumers are only added to.  With an empty state folder the first own head waits until every
configured peer has told what it holds, at the latest 30 s, so that an epoch met there is exceeded
and nothing flaps to empty.
"""

from __future__ import annotations

from dataclasses import dataclass

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


def may_publish(start: Start, answered: frozenset[str], now: float) -> bool:
    """Whether the first own head may be issued; ``answered`` are peers that told what they hold."""
    if not start.empty_state or start.configured <= answered:
        return True
    return now - start.at >= _EMPTY_STATE_SECONDS


def is_current(start: Start, caught_up: frozenset[str], now: float) -> bool:
    """Whether the view is current enough to delete, downgrade and relay.

    ``caught_up`` are peers whose own head, as they advertised it, is committed here in this life.
    """
    if len(caught_up & start.configured) >= min(_QUORUM, len(start.configured)):
        return True
    return now - start.at >= _STATIC_SECONDS
