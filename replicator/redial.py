"""When a peer is dialled again, how long an answer may take, and when a link is renewed.

Nobody answers: another try after a second, give or take half.  Refused or rejected: after a random
time up to a bound that doubles to a minute, and never sooner than the peer asked for.  No two
agents that lost or were refused something at one instant try again in step.

Pure: ``now`` is monotonic seconds, ``share`` a random number in [0, 1).
"""

from __future__ import annotations

from dataclasses import dataclass

from replicator.session import LINK_SECONDS

REDIAL_SECONDS = 1.0
_FIRST_SECONDS = 0.25
"""A link that was lost is dialled again within this time."""
_TIMEOUT_SECONDS, _LONGEST_TIMEOUT_SECONDS = 1.0, 5.0
_PATIENCE_SECONDS = 600.0
_REFUSED_CAP_SECONDS = 60.0
_MOST_REFUSALS = 6
RETRY_AFTER_CAP_SECONDS = 300.0
"""No peer is believed to want to be left alone for longer."""
_LEAST_LIFE_SECONDS = 30.0
_USED, _SPREAD = 0.85, 0.1


@dataclass(slots=True)
class Redial:
    """How dialling one peer has gone."""

    since: float
    """When the peer was last linked with, or first dialled."""
    refusals: int = 0
    """Refusals and rejections in a row."""

    def linked(self, now: float) -> None:
        """There is a link on which both have said hello."""
        self.since, self.refusals = now, 0

    def timeout(self, now: float) -> float:
        """Seconds a connection may take: 1, growing to 5 in ten minutes without success."""
        grown = min(1.0, max(0.0, now - self.since) / _PATIENCE_SECONDS)
        return _TIMEOUT_SECONDS + (_LONGEST_TIMEOUT_SECONDS - _TIMEOUT_SECONDS) * grown

    @staticmethod
    def lost(share: float) -> float:
        """Seconds to wait before the first try after a link was lost."""
        return _FIRST_SECONDS * share

    @staticmethod
    def unanswered(share: float) -> float:
        """Seconds to wait when nobody answered."""
        return REDIAL_SECONDS * (0.5 + share)

    def refused(self, share: float, retry_after: float | None) -> float:
        """Seconds to wait after one more refusal; ``retry_after`` is what the peer asked for."""
        self.refusals = min(self.refusals + 1, _MOST_REFUSALS)
        cap = min(_REFUSED_CAP_SECONDS, 2.0**self.refusals)
        wait = 1.0 + (cap - 1.0) * share
        if retry_after is None:
            return wait
        return max(wait, min(retry_after, RETRY_AFTER_CAP_SECONDS) * (1.0 + share))


def renewal_after(valid_seconds: float | None, share: float) -> float:
    """Seconds after which a link that we dialled is renewed.

    ``valid_seconds`` is what was left of both certificates when the link was made.  Some nine
    tenths of that or of an hour, whichever is shorter: a peer that renewed its certificate shows
    the new one in time, and one that did not is not asked without end.
    """
    life = LINK_SECONDS if valid_seconds is None else min(LINK_SECONDS, valid_seconds)
    return max(_LEAST_LIFE_SECONDS, life * (_USED + _SPREAD * share))
