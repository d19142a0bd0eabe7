"""Making certificates: an authority for a clusterset, and one pair for each cluster.

A cluster's certificate carries its identity as the only URI name, the hosts it is dialled at, key
identifiers, key usage and both extended usages, so that it passes strict verification (RFC 5280, as
OpenSSL checks it) on every Python.  The authority's certificate names the clusterset by the URI
``spiffe://<clusterset>``.  Keys are ECDSA P-256.  The time comes from the caller; keys and serial
numbers are the operating system's randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from replicator.errors import InputError, PkiError
from replicator.identity import PeerIdentity, is_label
from replicator.pem import (
    PrivateKey,
    certificates_pem,
    key_pem,
    load_certificates,
    load_key,
    make_folder,
    write_new,
)
from replicator.pki_check import Finding, Report, check, check_authority, check_bundle

__all__ = [
    "Authority",
    "Finding",
    "Issued",
    "Report",
    "check",
    "check_bundle",
    "create_ca",
    "issue",
    "load_authority",
    "parse_host",
    "save_authority",
    "save_pair",
]

AUTHORITY_DAYS = 3650
CLUSTER_DAYS = 365
_BACKDATED = timedelta(hours=1)
"""Certificates are valid this long before they are made, for clocks that are behind."""
_NAME_LIMIT = 253


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: PrivateKey


@dataclass(frozen=True, slots=True)
class Authority:
    """What issues the certificates of one clusterset."""

    clusterset: str
    certificate: x509.Certificate
    key: PrivateKey


def parse_host(text: str) -> x509.GeneralName:
    """A host as a certificate names it: an IP address (without brackets) or a DNS name.

    Raises :class:`~replicator.errors.InputError` for anything else.
    """
    try:
        address: IPv4Address | IPv6Address = ip_address(text)
    except ValueError:
        labels = text.lower().removesuffix(".").split(".")
        if len(text) <= _NAME_LIMIT and all(map(is_label, labels)) and not labels[-1].isdigit():
            return x509.DNSName(".".join(labels))
        message = f"{text[:100]!r} is no host"
        raise InputError(message, cure="give a DNS name or an IP address without zone") from None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        message = f"{text[:100]!r} has a zone, which means nothing elsewhere"
        raise InputError(message, cure="give an IP address without zone")
    return x509.IPAddress(address)


def _key_usage(*, signature: bool, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _authority_id(key: PrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def create_ca(clusterset: str, now: datetime, days: int = AUTHORITY_DAYS) -> Authority:
    """A new authority for ``clusterset`` (a DNS label), valid ``days`` from ``now`` (aware)."""
    if not is_label(clusterset):
        message = f"{clusterset[:100]!r} is not a DNS label"
        raise InputError(message, cure="name the clusterset with a-z, 0-9 and inner hyphens")
    key = ec.generate_private_key(ec.SECP256R1())
    domain = x509.UniformResourceIdentifier(_domain(clusterset))
    certificate = (
        _builder(_name(clusterset), _name(clusterset), key, now, now + timedelta(days=days))
        .add_extension(_authority_id(key), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signature=False, authority=True), critical=True)
        .add_extension(x509.SubjectAlternativeName([domain]), critical=False)
        .sign(key, SHA256())
    )
    return Authority(clusterset, certificate, key)


def _domain(clusterset: str) -> str:
    return f"spiffe://{clusterset}"


def issue(
    authority: Authority,
    cluster: str,
    hosts: Sequence[str],
    now: datetime,
    days: int = CLUSTER_DAYS,
) -> Issued:
    """A new pair for ``cluster``, dialled at ``hosts``, valid ``days`` from ``now`` (aware).

    It never outlives the authority's own certificate.
    """
    if not is_label(cluster):
        message = f"{cluster[:100]!r} is not a DNS label"
        raise InputError(message, cure="name the cluster with a-z, 0-9 and inner hyphens")
    names: list[x509.GeneralName] = [
        x509.UniformResourceIdentifier(str(PeerIdentity(authority.clusterset, cluster))),
        *(parse_host(host) for host in hosts),
    ]
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate
    issuer_id = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    end = min(now + timedelta(days=days), issuer.not_valid_after_utc)
    builder = (
        _builder(_name(cluster), issuer.subject, key, now, end)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signature=True, authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    algorithm = SHA256() if isinstance(authority.key, ec.EllipticCurvePrivateKey) else None
    return Issued(builder.sign(authority.key, algorithm), key)


def save_authority(authority: Authority, folder: Path) -> None:
    """Write ``ca.crt`` and ``ca.key``; neither may exist."""
    make_folder(folder, 0o700)
    write_new(folder / "ca.key", key_pem(authority.key), secret=True)
    write_new(folder / "ca.crt", certificates_pem([authority.certificate]))


def load_authority(folder: Path, now: datetime, clusterset: str | None = None) -> Authority:
    """Read ``ca.crt`` and ``ca.key`` and check that they can issue at ``now``.

    ``clusterset`` is needed only when the certificate, made elsewhere, does not name one.
    """
    certificate = load_certificates(folder / "ca.crt")[0]
    key = load_key(folder / "ca.key")
    cure = "restore both files of the authority, or make a new one in another folder"
    if certificate.public_key() != key.public_key():
        message = f"{folder / 'ca.key'} is not the key of {folder / 'ca.crt'}"
        raise PkiError(message, cure=cure, code="key_mismatch")
    for finding in check_authority(certificate, now):
        if finding.fatal:
            message = f"{folder / 'ca.crt'}: {finding.message}"
            raise PkiError(message, cure=finding.cure, code=finding.code)
    named = _named_clusterset(certificate)
    if clusterset is not None and named is not None and clusterset != named:
        message = f"the authority in {folder} is that of clusterset {named}, not {clusterset}"
        raise InputError(message, cure="use another folder for another clusterset")
    if named is None and clusterset is None:
        message = f"{folder / 'ca.crt'} does not name its clusterset"
        raise InputError(message, cure="add --clusterset NAME")
    return Authority(named or clusterset or "", certificate, key)


def _named_clusterset(certificate: x509.Certificate) -> str | None:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    for uri in names.get_values_for_type(x509.UniformResourceIdentifier):
        clusterset: str = uri.removeprefix("spiffe://")
        if uri == _domain(clusterset) and is_label(clusterset):
            return clusterset
    return None


def save_pair(issued: Issued, authority: Authority, folder: Path) -> None:
    """Write ``tls.crt``, ``tls.key`` and ``ca.crt``; none may exist."""
    make_folder(folder)
    write_new(folder / "tls.key", key_pem(issued.key), secret=True)
    write_new(folder / "tls.crt", certificates_pem([issued.certificate]))
    write_new(folder / "ca.crt", certificates_pem([authority.certificate]))
