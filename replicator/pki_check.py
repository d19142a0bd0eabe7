"""What is wrong with a certificate, before a peer or a deadline finds out.

Names every defect that strict verification (RFC 5280 as OpenSSL checks it under ``X509_STRICT``) or
our own identity rule would refuse, each with its cure: missing extensions, wrong usage, dates, the
key, the chain to the trust bundle.  Certificates that end within 72 hours are reported too, as not
fatal yet.

Revocation is not looked at.  The time comes from the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID

from replicator.errors import PkiError, ProtocolError
from replicator.identity import PeerIdentity, identity_of
from replicator.pem import load_certificates, load_key

EXPIRY_WARNING = timedelta(hours=72)
_ISSUE = "issue a new one with `replicator pki issue`"
_NEW_AUTHORITY = "make a new authority with `replicator pki init`, and trust both for a while"
_LONGEST_CHAIN = 8
_ExtensionType = type[x509.ExtensionType]
_CLUSTER_EXTENSIONS: tuple[tuple[_ExtensionType, str], ...] = (
    (x509.SubjectAlternativeName, "subject alternative name"),
    (x509.SubjectKeyIdentifier, "subject key identifier"),
    (x509.AuthorityKeyIdentifier, "authority key identifier"),
    (x509.KeyUsage, "key usage"),
    (x509.ExtendedKeyUsage, "extended key usage"),
)
_AUTHORITY_EXTENSIONS: tuple[tuple[_ExtensionType, str], ...] = (
    (x509.BasicConstraints, "basic constraints"),
    (x509.SubjectKeyIdentifier, "subject key identifier"),
    (x509.KeyUsage, "key usage"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong; ``fatal`` means that peers refuse it already."""

    code: str
    message: str
    cure: str
    fatal: bool = True


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in one file."""

    file: str
    kind: str
    """``certificate`` or ``bundle``."""
    subject: str
    identity: PeerIdentity | None
    """None for bundles, and when there is none."""
    expires_at: datetime
    """The earliest end of what the file holds."""
    findings: tuple[Finding, ...]

    @property
    def good(self) -> bool:
        """Nothing was found."""
        return not self.findings

    @property
    def usable(self) -> bool:
        """Nothing was found that peers refuse today."""
        return not any(finding.fatal for finding in self.findings)

    def document(self, now: datetime) -> dict[str, Any]:
        """The report as JSON-able values; ``days_left`` are whole days, negative when over."""
        return {
            "file": self.file,
            "kind": self.kind,
            "subject": self.subject,
            "identity": None if self.identity is None else str(self.identity),
            "expires_at": rfc3339(self.expires_at),
            "days_left": (self.expires_at - now).days,
            "good": self.good,
            "findings": [
                {"code": f.code, "message": f.message, "cure": f.cure, "fatal": f.fatal}
                for f in self.findings
            ],
        }


def rfc3339(moment: datetime) -> str:
    """A moment in UTC, to the second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def check(path: Path, now: datetime, *, key: Path | None, bundle: Path | None) -> Report:
    """Look at the certificate in ``path``, and at its key and trust bundle where given.

    A file whose first certificate is an authority's is taken for a bundle.  Raises
    :class:`~replicator.errors.PkiError` when ``path`` holds no certificate; what is wrong with the
    other two files is a finding.
    """
    certificates = load_certificates(path)
    leaf = certificates[0]
    if is_authority(leaf):
        return _bundle_report(path, certificates, now)
    findings = [*_dates(leaf, "the certificate", _ISSUE, now), *_cluster_extensions(leaf)]
    identity = None
    try:
        identity = identity_of(leaf)
    except ProtocolError as error:
        findings.append(Finding(error.code, error.message, error.cure))
    if key is not None:
        findings += _key(leaf, key)
    if bundle is not None:
        findings += _chain(certificates, bundle, now)
    subject, ends = _subject(leaf), leaf.not_valid_after_utc
    return Report(str(path), "certificate", subject, identity, ends, tuple(findings))


def check_bundle(path: Path, now: datetime) -> Report:
    """Look at a trust bundle; raises as :func:`check`."""
    return _bundle_report(path, load_certificates(path), now)


def _bundle_report(path: Path, certificates: Sequence[x509.Certificate], now: datetime) -> Report:
    findings: list[Finding] = []
    for certificate in certificates:
        findings += check_authority(certificate, now)
    subject = _subject(certificates[0])
    ends = min(certificate.not_valid_after_utc for certificate in certificates)
    return Report(str(path), "bundle", subject, None, ends, tuple(findings))


def check_authority(certificate: x509.Certificate, now: datetime) -> list[Finding]:
    """What keeps ``certificate`` from being an issuer that strict peers accept at ``now``."""
    who = f"the authority {_subject(certificate)}"
    if not is_authority(certificate):
        message = f"{_subject(certificate)} is no authority, so it cannot be trusted as one"
        return [Finding("not_an_authority", message, "take it out of the bundle")]
    findings = list(_dates(certificate, who, _NEW_AUTHORITY, now))
    findings += _missing(certificate, _AUTHORITY_EXTENSIONS, who, _NEW_AUTHORITY)
    usage = _extension(certificate, x509.KeyUsage)
    if usage is not None and not usage.key_cert_sign:
        message = f"the key usage of {who} does not allow it to issue certificates"
        findings.append(Finding("wrong_key_usage", message, _NEW_AUTHORITY))
    if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).critical:
        message = f"the basic constraints of {who} are not critical"
        findings.append(Finding("wrong_basic_constraints", message, _NEW_AUTHORITY))
    return findings


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether ``certificate`` says it may issue others."""
    constraints = _extension(certificate, x509.BasicConstraints)
    return constraints is not None and constraints.ca


def _subject(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string() or "(no subject)"


def _extension(certificate: x509.Certificate, kind: type[Any]) -> Any:  # noqa: ANN401  By kind.
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _missing(
    certificate: x509.Certificate,
    wanted: Sequence[tuple[_ExtensionType, str]],
    who: str,
    cure: str,
) -> Iterator[Finding]:
    for kind, name in wanted:
        if _extension(certificate, kind) is None:
            code = "missing_" + name.replace(" ", "_")
            yield Finding(code, f"{who} has no {name} extension", cure)


def _dates(certificate: x509.Certificate, who: str, cure: str, now: datetime) -> Iterator[Finding]:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < start:
        message = f"{who} is not valid before {rfc3339(start)}"
        yield Finding("not_yet_valid", message, "set this machine's clock, or wait")
    if now > end:
        yield Finding("expired", f"{who} ended at {rfc3339(end)}", cure)
    elif end - now < EXPIRY_WARNING:
        hours = int((end - now).total_seconds() // 3600)
        message = f"{who} ends at {rfc3339(end)}, in {hours} hours"
        yield Finding("expires_soon", message, cure, fatal=False)


def _cluster_extensions(leaf: x509.Certificate) -> Iterator[Finding]:
    who = "the certificate"
    yield from _missing(leaf, _CLUSTER_EXTENSIONS, who, _ISSUE)
    usage = _extension(leaf, x509.KeyUsage)
    if usage is not None and not usage.digital_signature:
        message = "the key usage of the certificate does not allow signatures"
        yield Finding("wrong_key_usage", message, _ISSUE)
    usages = _extension(leaf, x509.ExtendedKeyUsage)
    for wanted, name in (
        (ExtendedKeyUsageOID.SERVER_AUTH, "server"),
        (ExtendedKeyUsageOID.CLIENT_AUTH, "client"),
    ):
        if usages is not None and wanted not in usages:
            message = f"the extended key usage of the certificate lacks {name} authentication"
            yield Finding("wrong_extended_key_usage", message, _ISSUE)


def _key(leaf: x509.Certificate, path: Path) -> Iterator[Finding]:
    try:
        key = load_key(path)
    except PkiError as error:
        yield Finding(error.code, error.message, error.cure)
        return
    if key.public_key() != leaf.public_key():
        message = f"{path} is not the key of the certificate"
        cure = "put the two files of one pair together; both change at a rotation"
        yield Finding("key_mismatch", message, cure)


def _chain(certificates: Sequence[x509.Certificate], bundle: Path, now: datetime) -> list[Finding]:
    try:
        roots = load_certificates(bundle)
    except PkiError as error:
        return [Finding(error.code, error.message, error.cure)]
    findings: list[Finding] = []
    for root in roots:
        if not is_authority(root):
            findings += check_authority(root, now)
    path = [certificates[0]]
    while path[-1] not in roots and len(path) < _LONGEST_CHAIN:
        issuer = _issuer_of(path[-1], [*roots, *certificates[1:]])
        if issuer is None or issuer in path:
            break
        path.append(issuer)
    if path[-1] not in roots:
        message = f"the chain ends at {_subject(path[-1])}, whose issuer {bundle} does not hold"
        cure = "put the authority that issued it into the bundle of every cluster"
        return [*findings, Finding("untrusted_chain", message, cure)]
    for depth, issuer in enumerate(path[1:]):
        findings += [*check_authority(issuer, now), *_issuing(path[depth], issuer, depth)]
    return findings


def _issuer_of(
    certificate: x509.Certificate, candidates: Sequence[x509.Certificate]
) -> x509.Certificate | None:
    for candidate in candidates:
        try:
            certificate.verify_directly_issued_by(candidate)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return candidate
    return None


def _issuing(
    certificate: x509.Certificate, issuer: x509.Certificate, between: int
) -> Iterator[Finding]:
    """Whether ``issuer`` may have issued ``certificate``, with ``between`` authorities below it."""
    named = _extension(certificate, x509.AuthorityKeyIdentifier)
    held = _extension(issuer, x509.SubjectKeyIdentifier)
    if named is not None and held is not None and named.key_identifier not in {None, held.digest}:
        message = f"the authority key identifier is not that of {_subject(issuer)}"
        yield Finding("wrong_authority_key_identifier", message, _ISSUE)
    constraints = _extension(issuer, x509.BasicConstraints)
    length = None if constraints is None else constraints.path_length
    if length is not None and between > length:
        message = f"the authority {_subject(issuer)} allows only {length} others below it"
        yield Finding("path_too_long", message, _NEW_AUTHORITY)
