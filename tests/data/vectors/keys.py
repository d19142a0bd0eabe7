"""Keys and certificates of the vectors: published, made from fixed numbers, good for nothing else.

Ed25519 signatures and those of RFC 6979 depend on key and data alone, so the same bytes are made
every time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from crdt import Head, Origin
from replicator.messages import Record
from replicator.signing import PrivateKey, PublicKey, der, key_id_of

CLUSTERSET = "vectors"
START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)
ROOT_SEED, FJORD_SEED = bytes(range(32)), bytes(range(32, 64))
MESA_NUMBER = 0x6D657361
ROOT_KEY = ed25519.Ed25519PrivateKey.from_private_bytes(ROOT_SEED)
FJORD_KEY = ed25519.Ed25519PrivateKey.from_private_bytes(FJORD_SEED)
MESA_KEY = ec.derive_private_key(MESA_NUMBER, ec.SECP256R1())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(name: str, key: PublicKey, serial: int, *extensions: x509.ExtensionType) -> bytes:
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name("root"))
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(START)
        .not_valid_after(END)
    )
    for extension in extensions:
        critical = isinstance(extension, x509.BasicConstraints)
        builder = builder.add_extension(extension, critical)
    return der(builder.sign(ROOT_KEY, None))


def leaf_of(clusterset: str, cluster: str, key: PrivateKey, serial: int) -> bytes:
    """A certificate (DER) for ``cluster``, issued by the root."""
    uri = x509.UniformResourceIdentifier(f"spiffe://{clusterset}/cluster/{cluster}")
    names = x509.SubjectAlternativeName([uri])
    return _certificate(cluster, key.public_key(), serial, names)


ROOT = _certificate("root", ROOT_KEY.public_key(), 1, x509.BasicConstraints(ca=True, path_length=0))


@dataclass(frozen=True)
class Writer:
    """Who signs heads of one cluster."""

    cluster: str
    key: PrivateKey
    leaf: bytes

    @property
    def key_id(self) -> bytes:
        """As heads name it."""
        return key_id_of(self.leaf)

    @property
    def record(self) -> Record:
        """What the heads are verified by."""
        return Record(Origin(self.cluster), self.key_id, (self.leaf,))

    def signed(self, head: Head) -> Head:
        """``head`` with its signature."""
        data = head.canonical()
        if isinstance(self.key, ed25519.Ed25519PrivateKey):
            return head.signed(self.key.sign(data))
        return head.signed(self.key.sign(data, ec.ECDSA(SHA256(), deterministic_signing=True)))


FJORD = Writer("fjord", FJORD_KEY, leaf_of(CLUSTERSET, "fjord", FJORD_KEY, 2))
MESA = Writer("mesa", MESA_KEY, leaf_of(CLUSTERSET, "mesa", MESA_KEY, 3))
STRANGER = Writer("fjord", FJORD_KEY, leaf_of("elsewhere", "fjord", FJORD_KEY, 4))
