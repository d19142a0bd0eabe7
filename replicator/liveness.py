"""What a direct link tells of an origin: that it is fresh, and its clock.

Plain functions of sessions and origins; times are monotonic seconds or Unix nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crdt import Origin
from replicator.handshake import is_writer
from replicator.remote_origin import RemoteOrigin
from replicator.session import Session


def confirm(session: Session, remotes: Mapping[Origin, RemoteOrigin], now: float) -> None:
    """A beat of a directly linked origin's writer confirms what is committed of it."""
    if not is_writer(session):
        return
    advert_of = session.adverts.get
    for origin, remote in remotes.items():
        if origin.cluster == session.cluster and remote.known:
            advert = advert_of(origin)
            if advert is not None and advert.version <= remote.version:
                remote.fresh_at = now


def convergence(sessions: Iterable[Session], cluster: str, observed_at: int, wall_ns: int) -> float:
    """Seconds from observation at ``cluster`` to now on its clock; never negative."""
    offset = 0
    for session in sessions:
        if session.cluster == cluster and is_writer(session):
            offset = session.offset_ns
    return max(0, wall_ns + offset - observed_at) * 1e-9
