"""Dials peers: TLS 1.3, the identity of who answers, the upgrade.

Every dial resolves the name anew and uses the TLS state of that moment.  Nothing is followed,
remembered or sent through a proxy unless the dialler was made with one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import aiohttp
from cryptography import x509

from replicator.errors import ProtocolError, RefusedError, ReplicatorError, TransportError
from replicator.identity import PeerIdentity, identity_of
from replicator.transport.admission import error_from, own_headers
from replicator.transport.base import (
    ANSWER_SECONDS,
    MAX_FRAME,
    SESSION_PATH,
    SUBPROTOCOL,
    Link,
)
from replicator.transport.diagnosis import Attempt, explain
from replicator.transport.reload import LiveTls
from replicator.transport.websocket import CLOSE_SECONDS, Peer, WebSocketLink, tune

_BODY_LIMIT = 64 << 10
_SWITCHING = 101


@dataclass(slots=True)
class _Answer:
    """What is learnt while one dial goes on."""

    own_expires_at: datetime
    """When the chain that we show is over."""
    shaken: bool = False
    transport: asyncio.Transport | None = None
    peer: Peer | None = None


class TlsDialer:
    """:class:`~replicator.transport.base.Dialer` over mutual TLS."""

    def __init__(
        self,
        tls: LiveTls,
        now: Callable[[], datetime],
        *,
        max_frame: int = MAX_FRAME,
        proxy: str | None = None,
    ) -> None:
        """``now`` tells the (aware) time; ``proxy`` is the url of an HTTP proxy for all dials."""
        self._tls = tls
        self._now = now
        self._max_frame = max_frame
        self._proxy = proxy

    async def dial(self, url: str, cluster: str, timeout: float) -> Link:  # noqa: ASYNC109 - see base
        """See :class:`~replicator.transport.base.Dialer`."""
        state = self._tls.state
        answer = _Answer(state.credentials.expires_at)
        expected = PeerIdentity(self._tls.identity.clusterset, cluster)

        async def judge(response: aiohttp.ClientResponse) -> None:
            await _judge(response, answer, expected, f"{cluster} at {url}")

        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=state.client, use_dns_cache=False, force_close=True, limit=1
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[_trace(answer, f"{cluster} at {url}")],
            raise_for_status=judge,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=timeout),
            trust_env=False,
            auto_decompress=False,
        )
        try:
            async with asyncio.timeout(timeout + ANSWER_SECONDS):
                websocket = await self._upgrade(session, url)
            return self._link(session, websocket, answer)
        except BaseException as error:
            await session.close()
            if isinstance(error, ReplicatorError) or not isinstance(error, Exception):
                raise
            seconds = timeout + ANSWER_SECONDS if answer.shaken else timeout
            attempt = Attempt(url, cluster, seconds, answer.shaken)
            raise explain(error, attempt, state.credentials, self._now()) from error

    async def _upgrade(
        self, session: aiohttp.ClientSession, url: str
    ) -> aiohttp.ClientWebSocketResponse:
        return await session.ws_connect(
            url.rstrip("/") + SESSION_PATH,
            headers=own_headers(self._tls.identity),
            protocols=(SUBPROTOCOL,),
            autoping=False,
            compress=0,
            max_msg_size=self._max_frame + 1,
            timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS / 2),
            proxy=self._proxy,
        )

    def _link(
        self,
        session: aiohttp.ClientSession,
        websocket: aiohttp.ClientWebSocketResponse,
        answer: _Answer,
    ) -> Link:
        if websocket.protocol != SUBPROTOCOL or answer.transport is None:
            message = f"the peer does not speak {SUBPROTOCOL}"
            raise RefusedError(message, cure="upgrade the older agent", code="protocol_version")
        assert answer.peer is not None  # noqa: S101 - judged before the upgrade was accepted
        connection = answer.transport.get_extra_info("socket")
        tune(connection)
        return WebSocketLink(
            websocket,
            answer.transport,
            peer=answer.peer,
            dialled=True,
            max_frame=self._max_frame,
            release=session.close,
        )


def _trace(answer: _Answer, peer: str) -> aiohttp.TraceConfig:
    async def shaken(*_: object) -> None:
        answer.shaken = True

    async def redirected(*_: object) -> None:
        message = f"{peer} answers with a redirect"
        raise RefusedError(message, cure="dial the agent itself", code="redirected")

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(shaken)
    trace.on_request_redirect.append(redirected)
    return trace


async def _judge(
    response: aiohttp.ClientResponse, answer: _Answer, expected: PeerIdentity, peer: str
) -> None:
    """Look at who answered and what, before the WebSocket is made of it."""
    connection = response.connection
    transport = None if connection is None else connection.transport
    if transport is not None:
        answer.transport = transport
        certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        answer.peer = _peer(certificate, expected, peer, answer.own_expires_at)
    if response.status != _SWITCHING:
        body = await response.content.read(_BODY_LIMIT)
        raise error_from(response.status, response.headers, body, peer)
    if transport is None:
        message = f"{peer} closed right after the upgrade"
        raise TransportError(message, cure="dial again")


def _peer(certificate: bytes, expected: PeerIdentity, peer: str, own_expires_at: datetime) -> Peer:
    """Who showed ``certificate``; raises :class:`RefusedError` unless that is who was expected."""
    try:
        loaded = x509.load_der_x509_certificate(certificate)
        found = identity_of(loaded)
    except (ProtocolError, ValueError) as error:
        message = f"the certificate of {peer} names no cluster: {error}"
        cure = "issue it with `replicator pki issue`"
        raise RefusedError(message, cure=cure, code="no_cluster_identity") from error
    if found.clusterset != expected.clusterset:
        message = f"{peer} is of clusterset {found.clusterset}, not {expected.clusterset}"
        cure = "correct the url of the peer: another clusterset answers there"
        raise RefusedError(message, cure=cure, code="clusterset_mismatch")
    if found.cluster != expected.cluster:
        message = f"{found.cluster} answers where {peer} was dialled"
        cure = "correct the url or the name of the peer"
        raise RefusedError(message, cure=cure, code="identity_mismatch")
    return Peer(found, certificate, loaded.not_valid_after_utc, own_expires_at)
