"""Real listeners and dialers over loopback: who gets in, who does not, and what each side says.

Cases C51, C57, C61 and C63 of the collection the project was built against.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import aiohttp.web
import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from replicator.errors import RefusedError, ReplicatorError, TransportError
from replicator.identity import PeerIdentity
from replicator.pki import Authority, Issued, issue
from replicator.transport.base import Admit, Link, LinkClosed, PeerRefusedError, Refusal, admit_all
from replicator.transport.contexts import client_context, server_context
from replicator.transport.dialer import TlsDialer
from replicator.transport.doorway import Bounds
from replicator.transport.identity_files import Credentials
from replicator.transport.reload import LiveTls
from replicator.transport.server import TlsListener
from replicator.transport.websocket import Peer, WebSocketLink
from tests.support.certificates import authority, changed, names, now, pair, uri
from tests.support.network import DIAL_SECONDS, echo, eventually, identity, live_tls, url_of

UPGRADE = {
    "Host": "mesa",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Protocol": "replicator.1",
    "Replicator-Clusterset": "prod",
    "Replicator-Cluster": "fjord",
}


@dataclass
class Answer:
    """An HTTP answer, read to the end of the connection."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def code(self) -> str:
        found: str = json.loads(self.body)["error"]["code"]
        return found


def parse(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(status.split()[1]), headers, body)


def request(
    method: str = "GET", path: str = "/v1/session", body: bytes = b"", **changes: str | None
) -> bytes:
    headers = dict(UPGRADE)
    for name, value in changes.items():
        header = name.replace("_", "-")
        headers.pop(header, None)
        if value is not None:
            headers[header] = value
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Place:
    """One clusterset, a listener of mesa, and whoever dials it."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.folder = folder
        self.ca = authority()
        self.stack = stack
        self.links: list[Link] = []
        self.mesa = live_tls(folder / "mesa", self.ca, "mesa")

    async def listen(
        self,
        admit: Admit = admit_all,
        tls: LiveTls | None = None,
        handshake_seconds: float = 5.0,
        max_frame: int = 1 << 20,
        bounds: Bounds | None = None,
        on_link: Callable[[Link], object] | None = None,
    ) -> TlsListener:
        async def keep(link: Link) -> None:
            self.links.append(link)
            await echo(link)

        listener = TlsListener(
            "127.0.0.1",
            0,
            tls or self.mesa,
            admit=admit,
            handshake_seconds=handshake_seconds,
            bounds=bounds,
            max_frame=max_frame,
        )
        await listener.start(keep)
        self.stack.push_async_callback(listener.stop, 1.0)
        return listener

    def live(self, cluster: str, **options: object) -> LiveTls:
        return live_tls(self.folder / cluster, self.ca, cluster, **options)  # type: ignore[arg-type]

    async def dial(self, listener: TlsListener, tls: LiveTls, expecting: str = "mesa") -> Link:
        link = await TlsDialer(tls, now).dial(url_of(listener), expecting, DIAL_SECONDS)
        self.stack.push_async_callback(link.close)
        return link

    def unchecked(self, issued: Issued, roots: tuple[x509.Certificate, ...] = ()) -> Credentials:
        """Credentials as a peer that does not check its own might use."""
        trusted = roots or (self.ca.certificate,)
        return Credentials(identity("fjord"), (issued.certificate,), issued.key, trusted)

    async def ask(self, listener: TlsListener, raw: bytes, issued: Issued | None = None) -> Answer:
        """Send ``raw`` over TLS as fjord and read until the listener closes."""
        context = client_context(self.unchecked(issued or pair(self.ca, "fjord")))
        return parse(await exchange(listener, raw, context))


async def exchange(
    listener: TlsListener, raw: bytes, context: ssl.SSLContext | None, *, until_end: bool = True
) -> bytes:
    host, port = listener.address
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        async with asyncio.timeout(DIAL_SECONDS):
            with suppress(ConnectionError):
                writer.write(raw)
                await writer.drain()
            return await (reader.read() if until_end else reader.readuntil(b"\r\n\r\n"))
    finally:
        writer.transport.abort()
        with suppress(OSError, ssl.SSLError):
            await writer.wait_closed()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        yield Place(tmp_path, stack)


async def refused(dial: object) -> ReplicatorError:
    with pytest.raises(ReplicatorError) as caught:
        await dial  # type: ignore[misc]
    assert caught.value.cure
    return caught.value


# ---- HTTP before the upgrade ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/v1/session/", "/v1/status", "/v1//session", "/%761/session", "/V1/SESSION"]
)
async def test_every_other_path_is_404_without_a_body(place: Place, path: str) -> None:
    listener = await place.listen()
    answer = await place.ask(listener, request(path=path))
    assert (answer.status, answer.body, answer.headers["content-length"]) == (404, b"", "0")
    assert answer.headers["connection"] == "close"
    assert "python" not in str(answer.headers)


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (request(Replicator_Clusterset=None), 400, "malformed"),
        (request(Replicator_Cluster=None), 400, "malformed"),
        (request(Replicator_Clusterset="staging"), 409, "clusterset_mismatch"),
        (request(Replicator_Cluster="tundra"), 403, "identity_mismatch"),
        (request(Upgrade=None, Connection=None), 400, "malformed"),
        (request(Sec_WebSocket_Protocol=None), 400, "malformed"),
        (request(Sec_WebSocket_Protocol="replicator.9"), 400, "malformed"),
        (request(Sec_WebSocket_Key="short"), 400, "malformed"),
        (request(method="POST"), 400, "malformed"),
        (request(method="DELETE"), 400, "malformed"),
        (request(Content_Length="3", body=b"abc"), 400, "malformed"),
        (request(Transfer_Encoding="chunked", body=b"3\r\nabc\r\n0\r\n\r\n"), 400, "malformed"),
        (request(Content_Length="9000000000"), 400, "malformed"),
        (request(Content_Encoding="gzip"), 415, "bad_encoding"),
        (request(Content_Encoding="gzip, gzip"), 415, "bad_encoding"),
        (request(Content_Encoding="br"), 415, "bad_encoding"),
        (request(Content_Encoding="zstd"), 415, "bad_encoding"),
    ],
)
async def test_a_request_in_bad_form_or_name_is_answered_in_json(
    place: Place, raw: bytes, status: int, code: str
) -> None:
    answer = await place.ask(await place.listen(), raw)
    assert (answer.status, answer.code) == (status, code)
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["connection"] == "close"
    assert not place.links


async def test_identity_encoding_is_taken(place: Place) -> None:
    listener = await place.listen()
    context = client_context(place.unchecked(pair(place.ca, "fjord")))
    raw = request(Content_Encoding="identity")
    answer = await exchange(listener, raw, context, until_end=False)
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"permessage-deflate" not in answer


async def test_compression_is_not_agreed_to(place: Place) -> None:
    listener = await place.listen()
    context = client_context(place.unchecked(pair(place.ca, "fjord")))
    raw = request(Sec_WebSocket_Extensions="permessage-deflate; client_max_window_bits")
    answer = await exchange(listener, raw, context, until_end=False)
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"xtensions" not in answer


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET /v1/session\r\n\r\n",
        request(method="BREW"),
        b"GET " + b"/" * 10_000 + b" HTTP/1.1\r\n\r\n",
        request(Replicator_Cluster="x" * 10_000),
        request(Replicator_Cluster="fj\x00ord"),
        b"GET /v1/session HTTP/1.1\r\n" + b"a: b\r\n" * 10_000 + b"\r\n",
        request(Content_Length="-1"),
    ],
)
async def test_garbage_is_a_400_and_the_listener_goes_on(place: Place, raw: bytes) -> None:
    listener = await place.listen()
    assert (await place.ask(listener, raw)).status == 400
    await place.dial(listener, place.live("fjord"))


async def test_refusals_carry_retry_after(place: Place) -> None:
    busy = Refusal(429, "busy", "too much to do", "wait", retry_after=2.5)
    listener = await place.listen(admit=lambda _: busy)
    answer = await place.ask(listener, request())
    assert (answer.status, answer.headers["retry-after"]) == (429, "3")
    with pytest.raises(PeerRefusedError) as caught:
        await place.dial(listener, place.live("fjord"))
    assert (caught.value.status, caught.value.retry_after) == (429, 3.0)


async def test_draining_answers_503_with_connection_close(place: Place) -> None:
    listener = await place.listen()
    listener.drain()
    answer = await place.ask(listener, request())
    assert (answer.status, answer.code, answer.headers["connection"]) == (503, "draining", "close")


# ---- identity (C57, C51) -------------------------------------------------------------------------


def without_names(ca: Authority) -> Issued:
    return changed(pair(ca), ca, without=[x509.SubjectAlternativeName])


def named(*values: x509.GeneralName) -> Callable[[Authority], Issued]:
    return lambda ca: changed(pair(ca), ca, instead=[names(*values)])


@pytest.mark.parametrize(
    "made",
    [
        without_names,
        named(x509.DNSName("fjord")),
        named(x509.DNSName("*.prod.example")),
        named(uri("spiffe://prod/cluster/fjord"), uri("spiffe://prod/cluster/mesa")),
        named(uri("spiffe://staging/cluster/fjord")),
        named(uri("https://prod/cluster/fjord")),
        named(uri("spiffe://prod/cluster/*")),
    ],
    ids=["cn only", "dns name", "wildcard", "two clusters", "foreign domain", "https", "star"],
)
async def test_a_certificate_without_a_usable_identity_is_403(
    place: Place, made: Callable[[Authority], Issued]
) -> None:
    answer = await place.ask(await place.listen(), request(), made(place.ca))
    assert (answer.status, answer.code) == (403, "no_cluster_identity")
    assert not place.links


async def test_a_certificate_counts_for_its_own_cluster_only(place: Place) -> None:
    answer = await place.ask(await place.listen(), request(), pair(place.ca, "tundra"))
    assert (answer.status, answer.code) == (403, "identity_mismatch")


async def test_the_certificate_of_the_peer_can_be_read_on_both_ends(place: Place) -> None:
    listener = await place.listen()
    fjord = place.live("fjord")
    link = await place.dial(listener, fjord)
    await eventually(lambda: bool(place.links))
    assert link.peer_certificate == place.mesa.credentials.chain_der[0]
    assert place.links[0].peer_certificate == fjord.credentials.chain_der[0]


async def test_two_clustersets_under_one_authority_do_not_meet(place: Place) -> None:
    """C51: both sides notice by the certificates alone; nothing is exchanged."""
    other = Authority("staging", place.ca.certificate, place.ca.key)
    issued = issue(other, "fjord-stg", ["127.0.0.1"], now())
    folder = place.folder / "staging"
    folder.mkdir()
    staging_tls = live_tls_of(folder, place.ca, issued, PeerIdentity("staging", "fjord-stg"))
    listener = await place.listen(tls=staging_tls)
    error = await refused(place.dial(listener, place.live("fjord")))
    assert error.code == "clusterset_mismatch"
    assert "of clusterset staging, not prod" in error.message
    answer = await place.ask(listener, request())
    assert (answer.status, answer.code) == (409, "clusterset_mismatch")
    assert not place.links


def live_tls_of(folder: Path, ca: Authority, issued: Issued, who: PeerIdentity) -> LiveTls:
    from tests.support.certificates import write  # noqa: PLC0415
    from tests.support.network import tls_files  # noqa: PLC0415

    write(folder, issued, [ca.certificate])
    return LiveTls(tls_files(folder), who, now)


# ---- TLS: who trusts whom (C61, dialling side) ---------------------------------------------------


class Pretender(LiveTls):
    """Serves credentials that :class:`LiveTls` would have refused to load."""

    def __init__(self, good: LiveTls, credentials: Credentials) -> None:
        self.__dict__.update(good.__dict__)
        state = type(good.state)
        self._state = state(credentials, server_context(credentials), client_context(credentials))


def client_only(ca: Authority, usage: x509.ObjectIdentifier) -> Issued:
    return changed(pair(ca), ca, instead=[(x509.ExtendedKeyUsage([usage]), False)])


def ended(ca: Authority) -> Issued:
    start = now() - timedelta(days=3)
    return changed(pair(ca), ca, start=start, end=start + timedelta(days=1))


def early(ca: Authority) -> Issued:
    return changed(pair(ca), ca, start=now() + timedelta(hours=5))


def keyless(ca: Authority) -> Issued:
    return changed(pair(ca), ca, without=[x509.AuthorityKeyIdentifier])


@pytest.mark.parametrize(
    ("made", "code", "words"),
    [
        (ended, "certificate_refused", "expired|ended at"),
        (early, "certificate_refused", "not valid before|refused us"),
        (
            lambda ca: client_only(ca, ExtendedKeyUsageOID.SERVER_AUTH),
            "certificate_refused",
            "client",
        ),
        (keyless, "certificate_refused", "strict checks|key identifier|refused us"),
    ],
    ids=["expired", "not yet valid", "no client usage", "no authority key id"],
)
async def test_a_certificate_the_peer_refuses_is_diagnosed(
    place: Place, made: Callable[[Authority], Issued], code: str, words: str
) -> None:
    """In TLS 1.3 this shows as an alert or a reset after our side of the handshake is complete."""
    listener = await place.listen()
    bad = Pretender(place.live("fjord"), place.unchecked(made(place.ca)))
    error = await refused(place.dial(listener, bad))
    assert isinstance(error, RefusedError)
    assert error.code == code
    assert any(word in str(error) for word in words.split("|")), str(error)
    assert listener.handshake_errors
    assert not place.links
    await place.dial(listener, place.live("tundra"))


async def test_a_peer_that_does_not_trust_our_authority_says_so(place: Place) -> None:
    other = authority()
    stranger = live_tls(
        place.folder / "stranger", other, "fjord", trust=(other.certificate, place.ca.certificate)
    )
    error = await refused(place.dial(await place.listen(), stranger))
    assert "trust" in str(error)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (ended, "has expired"),
        (early, "not yet valid"),
        (lambda ca: client_only(ca, ExtendedKeyUsageOID.CLIENT_AUTH), "purpose"),
        (keyless, "Missing Authority Key Identifier"),
        (lambda _: pair(authority(), "mesa"), "issuer"),
    ],
    ids=["expired", "not yet valid", "no server usage", "no authority key id", "other authority"],
)
async def test_a_listener_whose_certificate_we_refuse_is_named_with_the_reason(
    place: Place, made: Callable[[Authority], Issued], words: str
) -> None:
    bad = Pretender(place.mesa, place.unchecked(made(place.ca)))
    listener = await place.listen(tls=bad)
    error = await refused(place.dial(listener, place.live("fjord")))
    assert isinstance(error, RefusedError)
    assert error.code == "untrusted_peer"
    assert words in error.message
    assert "mesa at" in error.message
    assert not place.links


async def test_a_peer_without_a_certificate_does_not_get_in(place: Place) -> None:
    listener = await place.listen()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with pytest.raises((OSError, ssl.SSLError)):  # noqa: PT012 - either may raise
        assert not await exchange(listener, request(), context)
        raise ConnectionResetError
    await eventually(lambda: listener.handshake_errors == 1)


async def test_tls_1_2_is_not_spoken(place: Place) -> None:
    listener = await place.listen()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((OSError, ssl.SSLError)):
        await exchange(listener, request(), context)
    await eventually(lambda: listener.handshake_errors == 1)


async def test_nothing_is_resumed_so_every_connection_is_verified(place: Place) -> None:
    listener = await place.listen()
    host, port = listener.address
    context = client_context(place.unchecked(pair(place.ca, "fjord")))
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    writer.write(request(path="/nothing"))
    await reader.read()
    session = writer.get_extra_info("ssl_object").session
    writer.transport.abort()
    assert not session.has_ticket


# ---- slow and silent peers -----------------------------------------------------------------------


async def test_a_peer_that_never_shakes_hands_is_cut(place: Place) -> None:
    listener = await place.listen(handshake_seconds=0.2)
    assert await exchange(listener, b"", None) == b""
    assert listener.handshake_errors == 1


@pytest.mark.parametrize("bound", ["handshakes", "handshakes_per_address"])
async def test_who_connects_too_often_is_closed_unheard_until_there_is_room(
    place: Place, bound: str
) -> None:
    listener = await place.listen(bounds=Bounds(**{bound: 3}))
    silent = [socket.create_connection(listener.address) for _ in range(3)]
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await exchange(listener, b"", None) == b""
    assert loop.time() - began < 1.0
    assert (listener.turned_away, listener.handshake_errors) == (1, 0)
    with pytest.raises(ReplicatorError):
        await place.dial(listener, place.live("fjord"))
    silent.pop().close()
    await eventually(lambda: listener.handshake_errors == 1)
    for _ in range(5):  # who has a link waits at the door no more
        await place.dial(listener, place.live("fjord"))
    for connection in silent:
        connection.close()


async def test_a_peer_that_shakes_hands_and_says_nothing_is_cut(place: Place) -> None:
    listener = await place.listen(handshake_seconds=0.2)
    context = client_context(place.unchecked(pair(place.ca, "fjord")))
    for raw in (b"", request()[:-10]):
        with suppress(OSError):
            assert await exchange(listener, raw, context) == b""


async def test_a_listener_that_never_answers_is_a_transport_error(place: Place) -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        dialer = TlsDialer(place.live("fjord"), now)
        error = await refused(dialer.dial(f"https://127.0.0.1:{port}", "mesa", 0.2))
    assert isinstance(error, TransportError)
    assert "did not answer within 0.2 s" in error.message


@pytest.mark.parametrize("shaken", [False, True])
async def test_a_listener_that_closes_at_once_is_a_transport_error(
    place: Place,
    shaken: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    async def slam(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writer.close()

    context = server_context(place.mesa.credentials) if shaken else None
    server = await asyncio.start_server(slam, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        dialer = TlsDialer(place.live("fjord"), now)
        error = await refused(dialer.dial(f"https://127.0.0.1:{port}", "mesa", DIAL_SECONDS))
    assert isinstance(error, TransportError)
    assert ("right after the handshake" in error.message) is shaken


async def answering(raw: bytes, place: Place) -> ReplicatorError:
    """What a dial says about a TLS server that answers ``raw``."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        writer.close()

    context = server_context(place.mesa.credentials)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        dialer = TlsDialer(place.live("fjord"), now)
        return await refused(dialer.dial(f"https://127.0.0.1:{port}", "mesa", DIAL_SECONDS))


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:1/\r\n\r\n", "redirected"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "refused"),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n[]", "refused"),
        (b'HTTP/1.1 403 No\r\nContent-Length: 13\r\n\r\n{"error": 42}', "refused"),
        (b"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", "unreachable"),
        (b"SSH-2.0-server\r\n\r\n", "unreachable"),
    ],
)
async def test_whatever_answers_a_dial_is_one_typed_error(
    place: Place, raw: bytes, code: str
) -> None:
    assert (await answering(raw, place)).code == code


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("https://nowhere.invalid:7443", "unreachable"),
        ("https://127.0.0.1:1", "unreachable"),
        ("ftp://127.0.0.1:7443", "bad_url"),
        ("https://:7443", "bad_url"),
        ("https://127.0.0.1:port", "bad_url"),
    ],
)
async def test_a_url_that_leads_nowhere_is_one_typed_error(
    place: Place, url: str, code: str
) -> None:
    dialer = TlsDialer(place.live("fjord"), now)
    assert (await refused(dialer.dial(url, "mesa", DIAL_SECONDS))).code == code


async def test_a_port_without_tls_is_named_as_such(place: Place) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        dialer = TlsDialer(place.live("fjord"), now)
        error = await refused(dialer.dial(f"https://127.0.0.1:{port}", "mesa", DIAL_SECONDS))
    assert "does not speak TLS 1.3" in error.message


async def test_proxy_variables_are_not_obeyed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = await place.listen()
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "WSS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    await place.dial(listener, place.live("fjord"))


# ---- frames --------------------------------------------------------------------------------------


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


async def raw_session(
    place: Place, listener: TlsListener
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = client_context(place.unchecked(pair(place.ca, "fjord")))
    host, port = listener.address
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    place.stack.push_async_callback(hang_up, writer)
    writer.write(request())
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def masked(first: int, length: int, payload: bytes) -> bytes:
    size = (
        bytes([0x80 | length])
        if length < 126
        else bytes([0x80 | 126]) + length.to_bytes(2, "big")
        if length <= 0xFFFF
        else bytes([0x80 | 127]) + length.to_bytes(8, "big")
    )
    return bytes([first]) + size + bytes(4) + payload


async def close_code(reader: asyncio.StreamReader) -> int:
    """The code of the close frame that comes next."""
    async with asyncio.timeout(DIAL_SECONDS):
        head = await reader.readexactly(2)
        assert head[0] == 0x88
        body = await reader.readexactly(head[1])
        return int.from_bytes(body[:2], "big")


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (masked(0x81, 5, b"hello"), 1003),
        (masked(0x82, 1 << 17, bytes(1 << 17)), 1009),
        (masked(0x82, 1 << 60, b""), 1009),
        (masked(0x02, 40_000, bytes(40_000)) + masked(0x80, 40_000, bytes(40_000)), 1009),
        (masked(0xC2, 5, b"abcde"), 1002),
        (masked(0x83, 0, b""), 1002),
        (masked(0x80, 0, b""), 1002),
        (masked(0x89, 126, bytes(126)), 1002),
    ],
    ids=[
        "text", "too large", "claims 2^60", "too large in parts", "compressed", "reserved",
        "continues nothing", "long ping",
    ],
)  # fmt: skip
async def test_a_frame_that_is_not_allowed_closes_the_link(
    place: Place, raw: bytes, code: int
) -> None:
    listener = await place.listen(max_frame=1 << 16)
    reader, writer = await raw_session(place, listener)
    writer.write(raw)
    assert await close_code(reader) == code


async def test_pings_are_neither_answered_nor_fatal(place: Place) -> None:
    listener = await place.listen()
    reader, writer = await raw_session(place, listener)
    writer.write(masked(0x89, 2, b"hi") + masked(0x8A, 0, b"") + masked(0x82, 3, b"abc"))
    assert await reader.readexactly(5) == b"\x82\x03abc"


async def test_a_peer_that_vanishes_ends_the_link(place: Place) -> None:
    listener = await place.listen()
    _, writer = await raw_session(place, listener)
    await eventually(lambda: bool(place.links))
    writer.transport.abort()
    with pytest.raises(LinkClosed) as caught:  # noqa: PT012 - some send raises
        async with asyncio.timeout(DIAL_SECONDS):
            while True:
                await place.links[0].send(b"x" * 1000)
                await asyncio.sleep(0)
    assert caught.value.close_code is None


async def test_a_link_whose_transport_was_closed_twice_can_still_be_cut(place: Place) -> None:
    """Python 3.11 forgets by then how to abort a TLS connection."""
    host, port = (await place.listen()).address
    context = client_context(place.unchecked(pair(place.ca, "fjord")))
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    link = WebSocketLink(
        aiohttp.web.WebSocketResponse(),
        writer.transport,
        peer=Peer(identity("mesa"), b"", now(), now()),
        dialled=True,
        max_frame=1,
    )
    writer.close()
    writer.close()
    link.abort("shutting down")
    with suppress(ConnectionResetError):
        async with asyncio.timeout(DIAL_SECONDS):
            assert await reader.read() == b""


async def test_a_link_to_a_peer_that_never_closes_is_over_in_two_seconds(place: Place) -> None:
    listener = await place.listen()
    await raw_session(place, listener)
    await eventually(lambda: bool(place.links))
    loop = asyncio.get_running_loop()
    began = loop.time()
    await place.links[0].close(1008, "enough")
    assert loop.time() - began < 2.5


async def test_the_time_comes_from_the_caller(place: Place) -> None:
    """A dial that fails after the handshake blames our certificate if it has ended by our clock."""

    async def slam(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writer.close()

    def later() -> datetime:
        return now() + timedelta(days=20)

    server = await asyncio.start_server(
        slam, "127.0.0.1", 0, ssl=server_context(place.mesa.credentials)
    )
    async with server:
        port = server.sockets[0].getsockname()[1]
        dialer = TlsDialer(place.live("fjord"), later)
        error = await refused(dialer.dial(f"https://127.0.0.1:{port}", "mesa", DIAL_SECONDS))
    assert error.code == "certificate_refused"
    assert "ended at" in error.message
