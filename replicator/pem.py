"""Certificates and private keys in PEM files.

Reading is lenient where people's editors and scripts are not careful: CRLF, text around the blocks,
a missing newline at the end (also when files were simply joined), the same certificate twice.
Writing never overwrites: a file that exists is an error, and a key has mode 0600 from its first
byte on.

Everything wrong raises :class:`~replicator.errors.PkiError` naming the file.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from replicator.errors import PkiError

PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey

_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_SIZE_LIMIT = 1 << 20
_MODE_KEY, _MODE_PUBLIC = 0o600, 0o644


def read_file(path: Path) -> bytes:
    """Content of a PEM file."""
    try:
        with path.open("rb") as file:
            data = file.read(_SIZE_LIMIT + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        message = f"cannot read {path}: {why}"
        raise PkiError(message, cure="name a readable PEM file") from error
    if len(data) > _SIZE_LIMIT:
        message = f"{path} is larger than {_SIZE_LIMIT} bytes"
        raise PkiError(message, cure="name a PEM file")
    return data


def parse_certificates(data: bytes, name: str) -> list[x509.Certificate]:
    """The certificates in ``data``, in order, each once; at least one."""
    blocks = _BLOCK.findall(data)
    if not blocks:
        message = f"{name} holds no certificate"
        raise PkiError(message, cure="name a PEM file with BEGIN CERTIFICATE")
    found: list[x509.Certificate] = []
    for number, block in enumerate(blocks, 1):
        try:
            der = base64.b64decode(b"".join(block.split()), validate=True)
            certificate = x509.load_der_x509_certificate(der)
            _ = certificate.extensions, certificate.subject, certificate.issuer
        except (binascii.Error, ValueError, x509.DuplicateExtension) as error:
            message = f"{name}: certificate {number} is damaged"
            raise PkiError(message, cure="copy the file again, or issue a new one") from error
        except (x509.UnsupportedGeneralNameType, UnsupportedAlgorithm) as error:
            message = f"{name}: certificate {number} uses what is not supported"
            raise PkiError(message, cure="issue a new one with `replicator pki issue`") from error
        if certificate not in found:
            found.append(certificate)
    return found


def load_certificates(path: Path) -> list[x509.Certificate]:
    """The certificates in a file, in order, each once; at least one."""
    return parse_certificates(read_file(path), str(path))


def parse_key(data: bytes, name: str) -> PrivateKey:
    """The private key in ``data``; ECDSA P-256 or Ed25519, without a password."""
    try:
        key = load_pem_private_key(data, password=None)
    except TypeError as error:
        message = f"{name} is locked with a password"
        raise PkiError(
            message, cure="give a key without one, readable only to the agent"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        message = f"{name} holds no private key"
        raise PkiError(message, cure="name a PEM file with BEGIN PRIVATE KEY") from error
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    message = f"{name} is neither an ECDSA P-256 nor an Ed25519 key"
    raise PkiError(message, cure="issue a pair with `replicator pki issue`", code="unsupported_key")


def load_key(path: Path) -> PrivateKey:
    """The private key in a file."""
    return parse_key(read_file(path), str(path))


def certificates_pem(certificates: Sequence[x509.Certificate]) -> bytes:
    """Certificates as PEM, in order."""
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def key_pem(key: PrivateKey) -> bytes:
    """A private key as PKCS #8 PEM, without a password."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_new(path: Path, data: bytes, *, secret: bool = False) -> None:
    """Write a file that must not exist yet; on disk when this returns."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, _MODE_KEY if secret else _MODE_PUBLIC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
    except FileExistsError as error:
        message = f"{path} exists and is never overwritten"
        cure = "move it away first, or name another folder"
        raise PkiError(message, cure=cure, code="exists") from error
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}"
        raise PkiError(
            message, cure="choose a folder you may write to", code="not_written"
        ) from error


def make_folder(path: Path, mode: int = 0o755) -> None:
    """Make a folder and those above it, unless it is there."""
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot make the folder {path}: {error.strerror}"
        raise PkiError(
            message, cure="choose a folder you may write to", code="not_written"
        ) from error
