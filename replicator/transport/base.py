"""What the replicator asks of a transport: links that carry frames between two known clusters.

A link exists only after both sides know whom they talk to; :attr:`Link.identity` comes from the
peer's certificate and from nothing else.  Frames are opaque here.  One contract suite runs on every
implementation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from replicator.errors import RefusedError, TransportError
from replicator.identity import PeerIdentity

SESSION_PATH = "/v1/session"
SUBPROTOCOL = "replicator.1"
CLUSTERSET_HEADER = "Replicator-Clusterset"
CLUSTER_HEADER = "Replicator-Cluster"
MAX_FRAME = 1 << 20
ANSWER_SECONDS = 5.0
HIGH_WATER = 64 << 10
"""Bytes that may wait in a link before :meth:`Link.send` waits for the peer to take some."""

NORMAL, GOING_AWAY, ONLY_BINARY, POLICY, TOO_BIG, FAILED = 1000, 1001, 1003, 1008, 1009, 1011
"""WebSocket close codes (RFC 6455, section 7.4.1) in use here."""


class LinkClosed(TransportError):  # noqa: N818  An end is an event as often as a failure.
    """The link is over; nothing more is sent or received.  The caller dials again.

    What was sent before may or may not have arrived.
    """

    code = "link_closed"

    def __init__(self, close_code: int | None, reason: str) -> None:
        """``close_code`` is the WebSocket close code; None when the connection just broke."""
        text = "the connection broke" if close_code is None else f"closed with {close_code}"
        super().__init__(f"{text}: {reason}" if reason else text)
        self.close_code = close_code
        self.reason = reason


class PeerRefusedError(RefusedError):
    """The peer answered our dial with an HTTP error; code, message and cure are the peer's."""

    def __init__(
        self, status: int, code: str, message: str, *, cure: str, retry_after: float | None
    ) -> None:
        """``retry_after`` is in seconds, when the peer named a time."""
        super().__init__(message, cure=cure, code=code)
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a peer's dial is turned away before the upgrade."""

    status: int
    code: str
    message: str
    cure: str = ""
    retry_after: float | None = None
    """Seconds."""


Admit = Callable[[PeerIdentity], Refusal | None]
"""Has the last word on a peer whose certificate and headers are in order; must not block."""


def admit_all(identity: PeerIdentity) -> Refusal | None:
    """Turn nobody away."""
    del identity
    return None


class Link(Protocol):
    """One connection to one peer, both ways."""

    @property
    def identity(self) -> PeerIdentity:
        """Whom the peer's certificate names."""
        ...

    @property
    def peer_certificate(self) -> bytes:
        """The peer's certificate (DER); empty in memory."""
        ...

    @property
    def peer_expires_ns(self) -> int | None:
        """Wall clock at which the peer's certificate is over; None where there is none."""
        ...

    @property
    def own_expires_ns(self) -> int | None:
        """The same of the chain that we showed."""
        ...

    @property
    def dialled(self) -> bool:
        """Whether we dialled."""
        ...

    @property
    def remote(self) -> str:
        """The peer's address, for people."""
        ...

    @property
    def bytes_sent(self) -> int:
        """Bytes of WebSocket frames sent so far (headers included, TLS not)."""
        ...

    @property
    def bytes_received(self) -> int:
        """Bytes of WebSocket frames received so far (headers included, TLS not)."""
        ...

    async def send(self, frame: bytes) -> None:
        """Send one frame; returns when the link can take more (less than ``HIGH_WATER`` waits).

        Raises :class:`LinkClosed`; :class:`ValueError` for a frame above the limit, with nothing
        sent.  A peer that takes nothing for ten seconds loses the link.
        """
        ...

    async def receive(self) -> bytes:
        """The next frame; one caller at a time.  Raises :class:`LinkClosed`.

        A peer that sends text or a frame above the limit is closed with 1003 or 1009.
        """
        ...

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """End the link; what was sent before still goes out.  Takes two seconds at most.

        May be called at any time and repeatedly; only the first code counts.
        """
        ...


class Dialer(Protocol):
    """Makes links to peers."""

    async def dial(self, url: str, cluster: str, timeout: float) -> Link:  # noqa: ASYNC109  A number.
        """Dial ``url`` (https) and expect ``cluster`` there.

        The connection with its TLS handshake may take ``timeout`` seconds; looking the name up, and
        the answer of a peer that is there, :data:`ANSWER_SECONDS` more.

        Raises :class:`~replicator.errors.RefusedError` when the peer or we refuse (TLS, identity,
        HTTP), :class:`~replicator.errors.TransportError` when there is no answer.
        """
        ...


OnLink = Callable[[Link], Awaitable[None]]


class Listener(Protocol):
    """Takes links from peers."""

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens, once started."""
        ...

    async def start(self, on_link: OnLink) -> None:
        """Listen; ``on_link`` runs as long as its link lives, and the link is closed after it.

        Raises :class:`~replicator.errors.ConfigError` when the address cannot be had.
        """
        ...

    def drain(self) -> None:
        """Turn every new peer away with 503 from now on; links go on."""
        ...

    async def stop(self, grace: float) -> None:
        """Close all links with 1001 and the listener, within ``grace`` seconds in any case."""
        ...
