"""Our own identity, as three files hold it: certificate chain, key and trust bundle.

:func:`load` takes all three or none: what it returns fits together and would be accepted by a
strict peer at that moment.  Contents are read once and judged in memory, so a file that changes
meanwhile cannot mix two versions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509

from replicator.config import Tls
from replicator.errors import PkiError
from replicator.identity import PeerIdentity, identity_of
from replicator.pem import (
    PrivateKey,
    certificates_pem,
    key_pem,
    parse_certificates,
    parse_key,
    read_file,
)
from replicator.pki_check import Finding, check, check_bundle
from replicator.signing import CertificateSigner, TrustStore, der


@contextmanager
def in_memory(data: bytes) -> Iterator[Path]:
    """A path under which ``data`` can be read while the context lasts; it touches no disk."""
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Contents:
    """What the three files hold at one moment."""

    certificate: bytes
    key: bytes
    bundle: bytes


def read(files: Tls) -> Contents:
    """Read the three files; :class:`PkiError` names the one that cannot be."""
    return Contents(
        read_file(files.certificate), read_file(files.key), read_file(files.trust_bundle)
    )


@dataclass(frozen=True, slots=True)
class Credentials:
    """A certificate chain with its key, and the authorities we trust."""

    identity: PeerIdentity
    chain: tuple[x509.Certificate, ...]
    """Leaf first."""
    key: PrivateKey
    roots: tuple[x509.Certificate, ...]

    @property
    def chain_der(self) -> tuple[bytes, ...]:
        """The chain as heads carry it (DER, leaf first)."""
        return tuple(der(certificate) for certificate in self.chain)

    @property
    def pair_pem(self) -> bytes:
        """Key and chain as PEM."""
        return key_pem(self.key) + certificates_pem(self.chain)

    @property
    def expires_at(self) -> datetime:
        """When our own chain ends."""
        return min(certificate.not_valid_after_utc for certificate in self.chain)

    def signer(self) -> CertificateSigner:
        """Signs heads with this key."""
        return CertificateSigner(self.key, self.chain_der)

    def trust_store(self) -> TrustStore:
        """Verifies heads against these authorities."""
        return TrustStore(self.roots, self.identity.clusterset)

    def findings(self, now: datetime) -> tuple[Finding, ...]:
        """What a strict peer would refuse about us at ``now`` (aware), or soon will."""
        return _findings(self.chain, self.key, self.roots, now)


def _findings(
    chain: Sequence[x509.Certificate],
    key: PrivateKey,
    roots: Sequence[x509.Certificate],
    now: datetime,
) -> tuple[Finding, ...]:
    with (
        in_memory(certificates_pem(chain)) as certificate,
        in_memory(key_pem(key)) as key_file,
        in_memory(certificates_pem(roots)) as bundle,
    ):
        report = check(certificate, now, key=key_file, bundle=bundle)
    names = {str(key_file): "the key file", str(bundle): "the trust bundle"}
    findings = []
    for finding in report.findings:
        message = finding.message
        for path, name in names.items():
            message = message.replace(path, name)
        findings.append(Finding(finding.code, message, finding.cure, finding.fatal))
    if report.kind == "bundle":
        message = f"the certificate {report.subject} is an authority's, not a cluster's"
        cure = "name the cluster's own certificate in `tls.certificate`"
        findings.insert(0, Finding("authority_as_certificate", message, cure))
    return tuple(findings)


def _only_authorities(roots: Sequence[x509.Certificate], files: Tls, now: datetime) -> None:
    """Refuse a bundle that holds anything but authorities; an ended one among them is harmless."""
    with in_memory(certificates_pem(roots)) as bundle:
        report = check_bundle(bundle, now)
    for finding in report.findings:
        if finding.code == "not_an_authority":
            message = f"{files.trust_bundle}: {finding.message}"
            raise PkiError(message, cure=finding.cure, code=finding.code)


def load(files: Tls, contents: Contents, expected: PeerIdentity, now: datetime) -> Credentials:
    """Judge ``contents`` and return them as credentials of ``expected``.

    Raises :class:`PkiError`, naming the file and the cure, unless key and certificate match, the
    certificate is valid at ``now`` (aware), carries what strict peers need and the identity
    ``expected``, and leads to the bundle, which holds authorities only.
    """
    chain = parse_certificates(contents.certificate, str(files.certificate))
    key = parse_key(contents.key, str(files.key))
    roots = parse_certificates(contents.bundle, str(files.trust_bundle))
    _only_authorities(roots, files, now)
    for finding in _findings(chain, key, roots, now):
        if finding.fatal:
            message = f"{files.certificate}: {finding.message}"
            raise PkiError(message, cure=finding.cure, code=finding.code)
    identity = identity_of(chain[0])
    if identity != expected:
        message = f"{files.certificate} is of {identity}, the configuration of {expected}"
        cure = "correct `clusterset` and `cluster`, or name the right certificate"
        raise PkiError(message, cure=cure, code="identity_mismatch")
    return Credentials(identity, tuple(chain), key, tuple(roots))
