"""Who may talk to us: the rules for a peer's hello, and which of two links to one peer stays.

Pure functions; a refusal is a :class:`~replicator.errors.ProtocolError` naming what to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from replicator.codec import MAJOR, MINOR
from replicator.errors import ProtocolError
from replicator.messages import Hello
from replicator.session import Session
from replicator.wire import FRAME_LIMIT

WRITER = "writer"
STANDBY = "standby"
_ROLES = frozenset({WRITER, STANDBY})


@dataclass(frozen=True, slots=True)
class Self:
    """Who this replica is."""

    clusterset: str
    cluster: str
    instance: str
    uid: str
    software: str
    frame_limit: int = FRAME_LIMIT
    """Bytes of one frame that we take."""
    packed: bool = True
    """Whether we take packed transfers, and say so."""
    buckets: bool = True
    """Whether we tell our buckets, and say so."""
    leased: bool = False
    """Whether a lease decides which agent of this cluster writes; without one there is only us."""
    minor: int = MINOR
    """The minor protocol version that we speak."""

    def hello(self, role: str, epoch: int) -> Hello:
        """What we say of ourselves."""
        return Hello(
            minor=self.minor,
            clusterset=self.clusterset,
            cluster=self.cluster,
            instance=self.instance,
            role=role,
            epoch=epoch,
            uid=self.uid,
            software=self.software,
            frame_limit=self.frame_limit,
            packed=self.packed,
            buckets=self.buckets,
        )


def check_hello(me: Self, session: Session, hello: Hello, uids: Mapping[str, str]) -> None:
    """Raise unless ``hello`` may open ``session``.

    Codes: ``bad_frame``, ``protocol_version`` (more than one minor version apart),
    ``clusterset_mismatch``, ``identity_mismatch`` (certificate and hello differ),
    ``peer_is_self_or_duplicate``, ``cluster_id_conflict`` (``uids`` binds another uid; an empty one
    binds nothing).  A later hello of a session may tell another role and nothing else.
    """
    former = session.peer
    if hello.role not in _ROLES:
        raise ProtocolError(f"the unknown role {hello.role[:20]!r}", code="bad_frame")
    if former is not None and (
        former.role == hello.role or replace(former, role=hello.role, epoch=hello.epoch) != hello
    ):
        raise ProtocolError("a second hello that tells more than a role", code="bad_frame")
    if abs(hello.minor - me.minor) > 1:
        raise _too_far_apart(me, hello)
    if hello.clusterset != me.clusterset:
        detail = f"this is clusterset {me.clusterset}, not {hello.clusterset}"
        raise ProtocolError(detail, code="clusterset_mismatch")
    if hello.cluster != session.cluster:
        detail = f"the certificate names {session.cluster}, the hello {hello.cluster}"
        raise ProtocolError(detail, code="identity_mismatch")
    if hello.instance == me.instance:
        raise ProtocolError("this link leads to ourselves", code="peer_is_self_or_duplicate")
    if uids.get(hello.cluster, "") not in {"", hello.uid}:
        detail = (
            f"cluster id {hello.cluster} is held by a cluster with another uid; "
            "give one of the two another id"
        )
        raise ProtocolError(detail, code="cluster_id_conflict")
    if hello.cluster == me.cluster and not me.leased:
        detail = "a second agent of this cluster; run one agent per cluster, or both with a lease"
        raise ProtocolError(detail, code="peer_is_self_or_duplicate")


def _too_far_apart(me: Self, hello: Hello) -> ProtocolError:
    ours, theirs = f"{MAJOR}.{me.minor}", f"{MAJOR}.{hello.minor}"
    older, step = (me.cluster, me.minor) if me.minor < hello.minor else (hello.cluster, hello.minor)
    detail = (
        f"{hello.cluster} ({hello.software[:64]}) speaks protocol {theirs}, {me.cluster} "
        f"({me.software}) {ours}; agents work together one minor version apart: "
        f"upgrade {older} to a release that speaks {MAJOR}.{step + 1}"
    )
    return ProtocolError(detail, code="protocol_version")


def is_writer(session: Session) -> bool:
    """Whether the peer writes its cluster's origin, by its last hello."""
    return session.peer is not None and session.peer.role == WRITER


def twins_of(session: Session, sessions: Iterable[Session]) -> list[Session]:
    """The other open sessions with the same (cluster, instance), as they were opened."""
    mine = session.peer
    if mine is None:
        return []
    found = []
    for other in sessions:
        peer = other.peer
        if other is session or peer is None:
            continue
        if (peer.cluster, peer.instance) == (mine.cluster, mine.instance):
            found.append(other)
    return found


def surplus(me: Self, session: Session, twin: Session) -> Session:
    """Which of two links to close that different sides dialled; both have got their hello.

    The one dialled by the smaller (cluster, instance) stays.
    """
    hello = session.peer
    assert hello is not None  # noqa: S101 - it has a twin
    we_are_smaller = (me.cluster, me.instance) < (hello.cluster, hello.instance)
    return twin if session.dialled == we_are_smaller else session
