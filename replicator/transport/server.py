"""Takes links from peers: accepts, shakes hands with the TLS state of the moment, upgrades.

Sockets are accepted here and given to aiohttp only after the handshake, so a reloaded certificate
or bundle serves the very next connection on the same port.  What has not become a link within
``HANDSHAKE_SECONDS`` twice over is cut; how many of them there may be, and how many links, is
:mod:`replicator.transport.doorway`'s.

Of HTTP only ``GET /v1/session`` is answered.  No request may carry a body, so nothing is ever
inflated or buffered.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from contextlib import suppress

import structlog
from aiohttp import web
from cryptography import x509

from replicator.errors import ConfigError, ProtocolError
from replicator.identity import PeerIdentity, identity_of
from replicator.transport.admission import (
    DRAINING,
    body_of,
    headers_of,
    judge,
    malformed,
    no_identity,
)
from replicator.transport.base import (
    GOING_AWAY,
    MAX_FRAME,
    SESSION_PATH,
    SUBPROTOCOL,
    Admit,
    OnLink,
    Refusal,
    admit_all,
)
from replicator.transport.doorway import Bounds, Doorway
from replicator.transport.quiet import Seldom
from replicator.transport.reload import LiveTls
from replicator.transport.supervision import supervise
from replicator.transport.websocket import CLOSE_SECONDS, Peer, WebSocketLink, tune

HANDSHAKE_SECONDS = 5.0
_BACKLOG = 128
_LINE_LIMIT = 4096
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_SECONDS = 1.0
_LEAST_SECONDS = 0.05
_log = structlog.get_logger()
_silent = logging.getLogger("replicator.transport.http")
"""Takes what aiohttp would say of peers' requests: their text is never logged."""
_silent.propagate = False
_silent.setLevel(logging.CRITICAL + 1)


class TlsListener:
    """:class:`~replicator.transport.base.Listener` over mutual TLS."""

    def __init__(
        self,
        host: str,
        port: int,
        tls: LiveTls,
        *,
        admit: Admit = admit_all,
        bounds: Bounds | None = None,
        max_frame: int = MAX_FRAME,
        handshake_seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        """Listen on ``host`` and ``port`` (0 for any free one) once started."""
        self._host, self._port = host, port
        self._tls = tls
        self._admit = admit
        self._max_frame = max_frame
        self._handshake_seconds = handshake_seconds
        self._socket: socket.socket | None = None
        self._on_link: OnLink | None = None
        self._server: web.Server | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._door = Doorway(bounds or Bounds())
        self._deadlines: dict[asyncio.BaseTransport, tuple[asyncio.TimerHandle, str]] = {}
        self._links: dict[WebSocketLink, asyncio.Task[None] | None] = {}
        self._seldom = Seldom()
        self.draining = False
        self.handshake_errors = 0
        """Connections that failed in the TLS handshake."""
        self.turned_away = 0
        """Connections closed before the handshake, and requests refused after it."""

    @property
    def address(self) -> tuple[str, int]:
        """See :class:`~replicator.transport.base.Listener`."""
        return self._host, self._port

    async def start(self, on_link: OnLink) -> None:
        """See :class:`~replicator.transport.base.Listener`."""
        self._socket = await self._bind()
        self._host, self._port = self._socket.getsockname()[:2]
        self._on_link = on_link
        self._server = web.Server(
            self._handle,
            access_log=None,
            logger=_silent,
            auto_decompress=False,
            lingering_time=0.0,
            max_line_size=_LINE_LIMIT,
            max_field_size=_LINE_LIMIT,
        )
        self._accepting = asyncio.create_task(self._accept(self._socket, self._server))

    def drain(self) -> None:
        """See :class:`~replicator.transport.base.Listener`."""
        self.draining = True

    async def stop(self, grace: float) -> None:
        """See :class:`~replicator.transport.base.Listener`."""
        self.drain()
        if self._accepting is None or self._server is None or self._socket is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(grace * 0.8):
                await self._close_links()
        for link, task in list(self._links.items()):
            link.abort("shutting down")
            if task is not None:
                task.cancel()
        self._accepting.cancel()
        await asyncio.gather(self._accepting, return_exceptions=True)
        self._socket.close()
        for transport, (timer, _) in self._deadlines.items():
            timer.cancel()
            transport.close()
        await self._server.shutdown(max(grace * 0.1, _LEAST_SECONDS))

    async def _close_links(self) -> None:
        """Close every link with 1001 and wait until their handlers have ended."""
        tasks = [task for task in self._links.values() if task is not None]
        async with asyncio.TaskGroup() as group:
            for link in list(self._links):
                group.create_task(link.close(GOING_AWAY, "shutting down"))
        if tasks:
            await asyncio.wait(tasks)

    # ---- connections ---------------------------------------------------------------------------

    async def _bind(self) -> socket.socket:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            family, _, _, _, address = found[0]
            dual = family == socket.AF_INET6 and self._host == "::"
            listening = socket.create_server(
                address[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=dual
            )
        except OSError as error:
            message = f"cannot listen on {self._host}:{self._port}: {error.strerror or error}"
            cure = "choose another address in `listen`, or end what uses it"
            raise ConfigError(message, cure=cure, code="listen_failed") from error
        listening.setblocking(False)  # noqa: FBT003 - takes no name
        return listening

    async def _accept(self, listening: socket.socket, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    connection, address = await loop.sock_accept(listening)
                except OSError as error:
                    if error.errno in _NO_DESCRIPTORS:
                        _log.warning("listener_out_of_resources", why=str(error))
                        await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                remote = str(address[0])
                if not self._door.enter(remote):
                    self._turn_away(connection, remote)
                    continue
                group.create_task(self._shake_hands(connection, remote, server))

    def _turn_away(self, connection: socket.socket, remote: str) -> None:
        self.turned_away += 1
        connection.close()
        if self._seldom.due((remote, "unheard"), asyncio.get_running_loop().time()):
            cure = "see what connects; raise limits.handshakes or limits.handshakes_per_address"
            _log.warning("too_many_handshakes", remote=remote, cure=cure)

    async def _shake_hands(
        self, connection: socket.socket, remote: str, server: web.Server
    ) -> None:
        loop = asyncio.get_running_loop()
        waits = False
        try:
            tune(connection)
            transport, _ = await loop.connect_accepted_socket(
                server,
                connection,
                ssl=self._tls.state.server,
                ssl_handshake_timeout=self._handshake_seconds,
                ssl_shutdown_timeout=CLOSE_SECONDS / 2,
            )
        except (OSError, TimeoutError) as error:
            connection.close()
            self.handshake_errors += 1
            self._note_failed(remote, error)
        else:
            timer = loop.call_later(self._handshake_seconds, self._too_slow, transport)
            self._deadlines[transport] = timer, remote
            waits = True
        finally:
            if not waits:
                self._door.leave(remote)

    def _note_failed(self, remote: str, error: Exception) -> None:
        reason = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
        if self._seldom.due((remote, str(reason)), asyncio.get_running_loop().time()):
            _log.warning(
                "peer_handshake_failed",
                remote=remote,
                why=str(reason) or type(error).__name__,
                refused_by_us=isinstance(error, ssl.SSLCertVerificationError),
            )

    def _too_slow(self, transport: asyncio.Transport) -> None:
        self._in_time(transport)
        transport.abort()

    def _in_time(self, transport: asyncio.BaseTransport) -> None:
        found = self._deadlines.pop(transport, None)
        if found is not None:
            timer, remote = found
            timer.cancel()
            self._door.leave(remote)

    # ---- requests ------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.raw_path.partition("?")[0] != SESSION_PATH:
            return self._answer(404, b"", {"Connection": "close"})
        transport = request.transport
        if transport is None:
            return self._answer(503, b"", {"Connection": "close"})
        certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        refusal = _form(request)
        identity = peer = None
        if self.draining:
            refusal = DRAINING
        elif refusal is None:
            try:
                loaded = x509.load_der_x509_certificate(certificate)
                identity = identity_of(loaded)
                peer = Peer(
                    identity,
                    certificate,
                    loaded.not_valid_after_utc,
                    self._tls.credentials.expires_at,
                )
                refusal = judge(identity, request.headers, self._tls.identity, self._admit)
                refusal = refusal or self._door.take(identity.cluster)
            except (ProtocolError, ValueError) as error:
                refusal = no_identity(ProtocolError(str(error)))
        if refusal is not None or peer is None:
            return self._refuse(request, identity, refusal or malformed("no request"))
        try:
            return await self._upgrade(request, transport, peer)
        finally:
            self._door.give_back(peer.identity.cluster)

    @staticmethod
    def _answer(status: int, body: bytes, headers: dict[str, str]) -> web.Response:
        response = web.Response(status=status, body=body, headers=headers)
        response.headers["Server"] = "replicator"
        if body:
            response.content_type = "application/json"
        response.force_close()
        return response

    def _refuse(
        self, request: web.BaseRequest, identity: PeerIdentity | None, refusal: Refusal
    ) -> web.Response:
        self.turned_away += 1
        who = request.remote if identity is None else identity.cluster
        if self._seldom.due((str(who), refusal.code), asyncio.get_running_loop().time()):
            _log.warning("peer_refused", peer=who, code=refusal.code, why=refusal.message)
        return self._answer(refusal.status, body_of(refusal), headers_of(refusal))

    async def _upgrade(
        self,
        request: web.BaseRequest,
        transport: asyncio.Transport,
        peer: Peer,
    ) -> web.StreamResponse:
        websocket = web.WebSocketResponse(
            protocols=(SUBPROTOCOL,),
            autoping=False,
            compress=False,
            max_msg_size=self._max_frame + 1,
            timeout=CLOSE_SECONDS / 2,
        )
        ready = websocket.can_prepare(request)
        if not ready.ok or ready.protocol != SUBPROTOCOL:
            message = f"not an upgrade to the WebSocket subprotocol {SUBPROTOCOL}"
            return self._refuse(request, peer.identity, malformed(message))
        websocket.headers["Server"] = "replicator"
        await websocket.prepare(request)
        self._in_time(transport)
        link = WebSocketLink(
            websocket,
            transport,
            peer=peer,
            dialled=False,
            max_frame=self._max_frame,
        )
        self._links[link] = asyncio.current_task()
        assert self._on_link is not None  # noqa: S101 - set before anything is accepted
        try:
            await supervise(self._on_link, link)
        finally:
            del self._links[link]
        return websocket


def _form(request: web.BaseRequest) -> Refusal | None:
    """What is wrong with the form of a request for a session, whoever sent it."""
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        cure = "send no body and no encoding"
        return Refusal(415, "bad_encoding", f"the encoding {encoding[:50]!r} is not taken", cure)
    if request.body_exists:
        return malformed("a request for a session has no body")
    if request.method != "GET":
        return malformed(f"a session is opened with GET, not {request.method[:20]}")
    return None
