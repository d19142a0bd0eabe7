"""Signatures of heads, and the certificate chains they are checked by.

A head is signed with the key of its cluster's certificate; the chain travels with the origin as a
``Record``.  A receiver accepts a head only if the chain leads to a root it trusts, names that
origin's cluster in its one URI SAN, and was valid when the head was issued (24 h tolerance before
notBefore, for clocks that are behind).  Roots are configuration, so what a relay says proves
nothing.

Ed25519 and ECDSA P-256 keys are supported.  Path validation: RFC 5280 section 6, for chains of one
issuer each; revocation lists are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from crdt import Head
from replicator.errors import ProtocolError
from replicator.identity import PeerIdentity, identity_of
from replicator.messages import Record

_NOT_BEFORE_TOLERANCE_NS = 24 * 3600 * 1_000_000_000
_NS = 1_000_000_000

PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey
PublicKey = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey


class Signer(Protocol):
    """Signs this agent's heads."""

    @property
    def chain(self) -> tuple[bytes, ...]:
        """Certificates (DER, leaf first) that travel with the origin."""
        ...

    @property
    def key_id(self) -> bytes:
        """Names the key within :attr:`chain`."""
        ...

    def sign(self, data: bytes) -> bytes:
        """Signature over ``data``."""
        ...


class Verifier(Protocol):
    """Checks other clusters' heads."""

    def verify(self, head: Head, record: Record) -> None:
        """Return if ``head`` is its origin's word; raise :class:`ProtocolError` otherwise."""
        ...


def key_id_of(leaf: bytes) -> bytes:
    """Identifier of a certificate's key: the first 16 bytes of its SHA-256."""
    return sha256(leaf).digest()[:16]


class CertificateSigner:
    """:class:`Signer` with the key of a TLS certificate."""

    def __init__(self, key: PrivateKey, chain: Sequence[bytes]) -> None:
        """Use ``key``, whose certificate is ``chain[0]`` (DER)."""
        self._key = key
        self._chain = tuple(chain)
        self._key_id = key_id_of(self._chain[0])

    @property
    def chain(self) -> tuple[bytes, ...]:
        """See :class:`Signer`."""
        return self._chain

    @property
    def key_id(self) -> bytes:
        """See :class:`Signer`."""
        return self._key_id

    def sign(self, data: bytes) -> bytes:
        """See :class:`Signer`."""
        if isinstance(self._key, ed25519.Ed25519PrivateKey):
            return self._key.sign(data)
        return self._key.sign(data, ec.ECDSA(SHA256()))


@dataclass(frozen=True, slots=True)
class _Verified:
    """A chain that leads to a trusted root, and when it may be used (Unix ns)."""

    identity: PeerIdentity
    key: PublicKey
    not_before: int
    not_after: int


def _refuse(detail: str, code: str) -> ProtocolError:
    return ProtocolError(detail, code=code)


_UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""What the library raises for certificates that others made up."""


def _may_issue(certificate: x509.Certificate, below: int) -> bool:
    """Whether it is an authority that may have ``below`` further ones under it."""
    try:
        extensions = certificate.extensions
        constraints = extensions.get_extension_for_class(x509.BasicConstraints).value
    except (*_UNREADABLE, x509.ExtensionNotFound):
        return False
    try:
        signs = extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound:
        signs = True
    length = constraints.path_length
    return constraints.ca and signs and (length is None or below <= length)


def _issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (*_UNREADABLE, InvalidSignature):
        return False
    return True


class TrustStore:
    """:class:`Verifier` against a bundle of roots; replaced whole when the bundle changes."""

    def __init__(
        self, roots: Sequence[x509.Certificate], clusterset: str, *, remembered: int = 4096
    ) -> None:
        """Trust ``roots`` for identities of ``clusterset``; keep so many chains that were good."""
        self._remembered = remembered
        self._roots = tuple(roots)
        self._clusterset = clusterset
        self._verified: dict[tuple[bytes, ...], _Verified] = {}

    def verify(self, head: Head, record: Record) -> None:
        """See :class:`Verifier`.

        Codes: ``untrusted_chain``, ``identity_mismatch``, ``no_cluster_identity``,
        ``certificate_not_valid`` (at issue time), ``unknown_key``, ``bad_signature``.
        """
        if record.origin != head.origin or head.key_id != record.key_id:
            detail = f"head of {head.origin.cluster} names a key that its record does not hold"
            raise _refuse(detail, "unknown_key")
        known = self._chain(record)
        if known.identity != PeerIdentity(self._clusterset, head.origin.cluster):
            detail = f"a head of {head.origin.cluster} is signed by {known.identity.cluster}"
            raise _refuse(detail, "identity_mismatch")
        if not known.not_before - _NOT_BEFORE_TOLERANCE_NS <= head.issued_at <= known.not_after:
            cluster = head.origin.cluster
            detail = f"the certificate of {cluster} was not valid when its head was issued"
            raise _refuse(detail, "certificate_not_valid")
        self._signature(head, known.key)

    @staticmethod
    def _signature(head: Head, key: PublicKey) -> None:
        try:
            if isinstance(key, ed25519.Ed25519PublicKey):
                key.verify(head.signature, head.canonical())
            else:
                key.verify(head.signature, head.canonical(), ec.ECDSA(SHA256()))
        except InvalidSignature as error:
            detail = f"the signature of a head of {head.origin.cluster} does not verify"
            raise _refuse(detail, "bad_signature") from error

    def _chain(self, record: Record) -> _Verified:
        known = self._verified.get(record.chain)
        if known is None:
            known = self._verify_chain(record)
            if len(self._verified) >= self._remembered:
                self._verified.clear()
            self._verified[record.chain] = known
        return known

    def _verify_chain(self, record: Record) -> _Verified:
        if key_id_of(record.chain[0]) != record.key_id:
            raise _refuse("a record's key id is not that of its certificate", "unknown_key")
        try:
            chain = [x509.load_der_x509_certificate(item) for item in record.chain]
            leaf, key = chain[0], chain[0].public_key()
            identity = identity_of(leaf)
        except _UNREADABLE as error:
            raise _refuse("a record's chain is not X.509", "untrusted_chain") from error
        if not isinstance(key, ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey):
            raise _refuse("a head's key must be Ed25519 or ECDSA", "untrusted_chain")
        path = self._path(chain)
        if path is None:
            detail = f"the chain of {record.origin.cluster} does not lead to a trusted root"
            raise _refuse(detail, "untrusted_chain")
        before = max(int(item.not_valid_before_utc.timestamp()) for item in path)
        after = min(int(item.not_valid_after_utc.timestamp()) for item in path)
        return _Verified(identity, key, before * _NS, after * _NS)

    def _path(self, chain: list[x509.Certificate]) -> list[x509.Certificate] | None:
        """The chain up to the first trusted root that issued a part of it, or None."""
        path, rest = chain[:1], chain[1:]
        while True:
            below = len(path) - 1
            for root in self._roots:
                if _may_issue(root, below) and _issued_by(path[-1], root):
                    return [*path, root]
            if not rest or not _may_issue(rest[0], below) or not _issued_by(path[-1], rest[0]):
                return None
            path.append(rest.pop(0))


def der(certificate: x509.Certificate) -> bytes:
    """DER bytes of a certificate, as records carry them."""
    return certificate.public_bytes(Encoding.DER)
