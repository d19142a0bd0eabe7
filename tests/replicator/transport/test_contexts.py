"""TLS settings are ours on every Python, and the last judge of credentials is a real handshake."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography import x509

from replicator.errors import PkiError
from replicator.pki import Authority, Issued
from replicator.transport.contexts import client_context, prove, server_context
from replicator.transport.identity_files import Credentials
from tests.support.certificates import authority, changed, changed_authority, new_key, now, pair
from tests.support.network import identity


def credentials(ca: Authority, issued: Issued, *roots: Authority) -> Credentials:
    trusted = tuple(root.certificate for root in (roots or (ca,)))
    return Credentials(identity("fjord"), (issued.certificate,), issued.key, trusted)


@pytest.mark.parametrize("make", [server_context, client_context])
def test_tls_1_3_with_certificates_on_both_sides_and_strict_checks(
    make: Callable[[Credentials], ssl.SSLContext],
) -> None:
    ca = authority()
    context = make(credentials(ca, pair(ca)))
    assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_3
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname is False
    assert context.verify_flags == (
        ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_TRUSTED_FIRST | ssl.VERIFY_X509_PARTIAL_CHAIN
    )
    assert len(context.get_ca_certs()) == 1
    assert context.keylog_filename is None


def test_nothing_can_be_resumed() -> None:
    ca = authority()
    assert server_context(credentials(ca, pair(ca))).num_tickets == 0


def test_good_credentials_prove_themselves() -> None:
    ca = authority()
    good = credentials(ca, pair(ca), authority(), ca)
    prove(server_context(good), client_context(good))


def _without(kind: type[x509.ExtensionType]) -> Callable[[Authority], Issued]:
    return lambda ca: changed(pair(ca), ca, without=[kind])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_without(x509.AuthorityKeyIdentifier), "Missing Authority Key Identifier"),
        (lambda _: pair(authority()), "issuer"),
    ],
)
def test_credentials_that_strict_peers_refuse_do_not_prove_themselves(
    make: Callable[[Authority], Issued], words: str
) -> None:
    """C61: refused alike on every Python, also where the library's default would accept."""
    ca = authority()
    bad = credentials(ca, make(ca))
    with pytest.raises(PkiError, match=words) as caught:
        prove(server_context(bad), client_context(bad))
    assert caught.value.cure


@pytest.mark.parametrize("missing", [x509.KeyUsage, x509.SubjectKeyIdentifier])
def test_an_authority_without_its_extensions_is_refused(
    missing: type[x509.ExtensionType],
) -> None:
    good = authority()
    ca = changed_authority(good, without=[missing])
    bad = credentials(ca, pair(good))
    with pytest.raises(PkiError, match="peers will refuse our certificate"):
        prove(server_context(bad), client_context(bad))


def test_a_key_of_another_pair_is_refused_by_the_library_too() -> None:
    ca = authority()
    mixed = replace(credentials(ca, pair(ca)), key=new_key())
    with pytest.raises(PkiError, match="refuses our certificate, key or bundle"):
        server_context(mixed)


def test_two_sides_that_cannot_agree_are_not_proved() -> None:
    ca = authority()
    good = credentials(ca, pair(ca))
    client = client_context(good)
    client.minimum_version = client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(PkiError):
        prove(server_context(good), client)


def test_credentials_give_what_heads_need() -> None:
    ca = authority()
    own = credentials(ca, pair(ca))
    assert own.signer().chain == own.chain_der
    assert own.signer().sign(b"data")
    assert own.expires_at == own.chain[0].not_valid_after_utc
    assert own.findings(now()) == ()
    assert own.trust_store() is not None
