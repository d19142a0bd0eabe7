"""Keys, certificates and kubeconfigs of one control plane, made fresh for every test run.

The certificates carry what strict X.509 checks ask for (key usage, subject and authority key
identifiers), since clients of the control planes are meant to verify as they would in production.
Private files are readable by their owner only.
"""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Files of one control plane; the tokens are those in ``tokens``."""

    ca: Path
    certificate: Path
    key: Path
    service_account_key: Path
    tokens: Path
    admin_token: str
    controller_manager_token: str


def make_credentials(
    folder: Path, name: str, addresses: Sequence[str] = ("127.0.0.1",)
) -> Credentials:
    """Write everything below ``folder``; the server has the certificate at these addresses."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Credentials(
        ca=folder / "ca.crt",
        certificate=folder / "server.crt",
        key=folder / "server.key",
        service_account_key=folder / "service-account.key",
        tokens=folder / "tokens.csv",
        admin_token=secrets.token_urlsafe(24),
        controller_manager_token=secrets.token_urlsafe(24),
    )
    ca_key, server_key = _new_key(), _new_key()
    ca = _sign(_subject(f"{name}-ca"), ca_key, _subject(f"{name}-ca"), ca_key)
    server = _sign(_subject(f"{name}-apiserver"), server_key, ca.subject, ca_key, addresses)
    write_private(made.ca, _certificate_pem(ca))
    write_private(made.certificate, _certificate_pem(server))
    write_private(made.key, _key_pem(server_key))
    write_private(made.service_account_key, _key_pem(_new_key()))
    users = (
        f'{made.admin_token},admin,1,"system:masters"',
        f"{made.controller_manager_token},system:kube-controller-manager,2",
    )
    write_private(made.tokens, "\n".join(users).encode() + b"\n")
    return made


def write_kubeconfig(path: Path, *, server: str, ca: Path, user: str, token: str) -> Path:
    """Write a kubeconfig with one context that trusts ``ca`` and presents ``token``."""
    bundle = base64.b64encode(ca.read_bytes()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "clusters": [
            {"name": "e2e", "cluster": {"server": server, "certificate-authority-data": bundle}}
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user}}],
    }
    write_private(path, yaml.safe_dump(config).encode())
    return path


def write_private(path: Path, content: bytes) -> None:
    """Write a file nobody else can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _sign(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    addresses: Sequence[str] = (),
) -> x509.Certificate:
    """Sign a server's certificate, or without addresses that of an authority."""
    authority = not addresses
    now = dt.datetime.now(dt.UTC)
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(issuer_id, critical=False)
        .add_extension(_key_usage(authority=authority), critical=True)
    )
    if not authority:
        names = [
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
            x509.DNSName("localhost"),
            x509.DNSName("kubernetes.default.svc"),
        ]
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(usage, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
