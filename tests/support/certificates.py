"""Certificates for tests: good ones from the project's own authority, and ones with one defect.

Also a TLS 1.3 handshake in memory under strict verification, as the judge that no test wrote.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from replicator.pem import certificates_pem, key_pem
from replicator.pki import Authority, Issued, create_ca, issue

CLUSTERSET = "prod"
CLUSTER = "fjord"
HOST = "fjord.example"
_ROUNDS = 10


def now() -> datetime:
    """The present; OpenSSL knows no other."""
    return datetime.now(UTC).replace(microsecond=0)


def authority(moment: datetime | None = None, days: int = 30) -> Authority:
    """A new authority of the clusterset ``prod``."""
    return create_ca(CLUSTERSET, moment or now(), days)


def pair(issuer: Authority, cluster: str = CLUSTER, days: int = 10) -> Issued:
    """A good pair of ``cluster``."""
    return issue(issuer, cluster, [HOST, "127.0.0.1"], now(), days)


def changed(
    issued: Issued,
    issuer: Authority,
    *,
    without: Sequence[type[x509.ExtensionType]] = (),
    instead: Sequence[tuple[x509.ExtensionType, bool]] = (),
    start: datetime | None = None,
    end: datetime | None = None,
) -> Issued:
    """The same certificate, signed again, with extensions taken out or exchanged, or other dates.

    ``instead`` holds (extension, critical).
    """
    old = issued.certificate
    builder = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        .issuer_name(old.issuer)
        .public_key(old.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start or old.not_valid_before_utc)
        .not_valid_after(end or old.not_valid_after_utc)
    )
    dropped = {*without, *(type(extension) for extension, _ in instead)}
    for extension in old.extensions:
        if type(extension.value) not in dropped:
            builder = builder.add_extension(extension.value, extension.critical)
    for value, critical in instead:
        builder = builder.add_extension(value, critical)
    return Issued(builder.sign(issuer.key, SHA256()), issued.key)


def changed_authority(
    old: Authority,
    *,
    without: Sequence[type[x509.ExtensionType]] = (),
    instead: Sequence[tuple[x509.ExtensionType, bool]] = (),
    start: datetime | None = None,
    end: datetime | None = None,
) -> Authority:
    """The same authority with its own certificate changed."""
    same = Issued(old.certificate, old.key)
    new = changed(same, old, without=without, instead=instead, start=start, end=end)
    return Authority(old.clusterset, new.certificate, old.key)


def names(*values: x509.GeneralName) -> tuple[x509.ExtensionType, bool]:
    """Subject alternative names to put in the place of the real ones."""
    return x509.SubjectAlternativeName(values), False


def uri(text: str) -> x509.GeneralName:
    """A URI name."""
    return x509.UniformResourceIdentifier(text)


def new_key() -> ec.EllipticCurvePrivateKey:
    """Another key."""
    return ec.generate_private_key(ec.SECP256R1())


def write(folder: Path, issued: Issued, bundle: Sequence[x509.Certificate]) -> Path:
    """Write ``tls.crt``, ``tls.key`` and ``ca.crt`` and return the first."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tls.crt").write_bytes(certificates_pem([issued.certificate]))
    (folder / "tls.key").write_bytes(key_pem(issued.key))
    (folder / "ca.crt").write_bytes(certificates_pem(bundle))
    return folder / "tls.crt"


def _context(side: ssl._SSLMethod, folder: Path, bundle: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    context.load_verify_locations(bundle)
    return context


def handshake(server: Path, client: Path) -> str | None:
    """Shake hands between two folders of files, each trusting the other's ``ca.crt``.

    Returns None, or what OpenSSL says against it.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        _context(ssl.PROTOCOL_TLS_CLIENT, client, client / "ca.crt").wrap_bio(
            to_client, to_server, server_hostname=HOST
        ),
        _context(ssl.PROTOCOL_TLS_SERVER, server, server / "ca.crt").wrap_bio(
            to_server, to_client, server_side=True
        ),
    ]
    waiting = set(range(len(sides)))
    for _ in range(_ROUNDS):
        for index in sorted(waiting):
            try:
                sides[index].do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                return str(error)
            waiting.discard(index)
        if not waiting:
            return None
    return "the handshake never ended"


def soon(hours: float) -> datetime:
    """The moment ``hours`` from now."""
    return now() + timedelta(hours=hours)
