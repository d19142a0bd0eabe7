"""TLS contexts for peer links: TLS 1.3 only, both sides show a certificate, strict X.509.

Every flag that a Python version might choose by itself is set here, so 3.11 and 3.13 accept and
refuse the same certificates.  Host names are not compared: a peer is known by the URI in its
certificate, which the caller checks.  Nothing is resumed, so every connection is verified against
today's bundle.
"""

from __future__ import annotations

import ssl

from replicator.errors import PkiError
from replicator.pem import certificates_pem
from replicator.transport.identity_files import Credentials, in_memory

_VERIFY_FLAGS = (
    ssl.VERIFY_X509_TRUSTED_FIRST | ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
)
_FLIGHTS = 8


def _context(side: int, credentials: Credentials) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags = _VERIFY_FLAGS
    context.options |= ssl.OP_NO_COMPRESSION
    try:
        with in_memory(credentials.pair_pem) as pair:
            context.load_cert_chain(pair)
        context.load_verify_locations(cadata=certificates_pem(credentials.roots).decode("ascii"))
    except (ssl.SSLError, OSError) as error:
        message = f"the TLS library refuses our certificate, key or bundle: {error}"
        raise PkiError(message, cure="issue a pair with `replicator pki issue`") from error
    return context


def server_context(credentials: Credentials) -> ssl.SSLContext:
    """For taking links; :class:`PkiError` when the library refuses the credentials."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, credentials)
    context.num_tickets = 0
    return context


def client_context(credentials: Credentials) -> ssl.SSLContext:
    """For dialling; :class:`PkiError` when the library refuses the credentials."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, credentials)


def prove(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Shake hands with ourselves in memory; :class:`PkiError` with the library's reason if not.

    The last judge of new credentials before they go live: each side verifies the other as a peer
    would.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    try:
        for _ in range(_FLIGHTS):
            sides = [side for side in sides if not _step(side)]
            if not sides:
                return
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or str(error)
        message = f"peers will refuse our certificate: {reason}"
        raise PkiError(message, cure="look at it with `replicator pki check`") from error
    message = "a handshake with our own certificate does not end"
    raise PkiError(message, cure="issue a pair with `replicator pki issue`")


def _step(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
