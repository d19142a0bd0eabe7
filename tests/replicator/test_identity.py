"""Which cluster a certificate speaks for: exactly one URI, in exactly one form (case C57)."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ProtocolError
from replicator.identity import MAX_LABEL, PeerIdentity, identity_of, is_label, parse_identity
from tests.support.certificates import authority, changed, names, pair, uri

LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)
GOOD = "spiffe://prod/cluster/mesa"


@given(LABELS, LABELS)
def test_an_identity_reads_back_from_its_uri(clusterset: str, cluster: str) -> None:
    identity = PeerIdentity(clusterset, cluster)
    assert parse_identity(str(identity)) == identity


@given(st.text(max_size=80))
def test_a_uri_is_an_identity_or_one_protocol_error(text: str) -> None:
    try:
        identity = parse_identity(text)
    except ProtocolError as error:
        assert error.code == "no_cluster_identity"  # noqa: PT017
        return
    assert str(identity) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "spiffe://",
        "spiffe://prod",
        "spiffe://prod/",
        "spiffe://prod/cluster",
        "spiffe://prod/cluster/",
        "spiffe://prod/cluster/mesa/",
        "spiffe://prod/cluster/mesa/agent",
        "spiffe://prod//cluster/mesa",
        "spiffe://prod/node/mesa",
        "spiffe:///cluster/mesa",
        "spiffe://prod:443/cluster/mesa",
        "spiffe://me@prod/cluster/mesa",
        "spiffe://prod/cluster/mesa?x=1",
        "spiffe://prod/cluster/mesa#x",
        "spiffe://prod/cluster/me%73a",
        "spiffe://prod/cluster/../mesa",
        "spiffe://Prod/cluster/mesa",
        "spiffe://prod/cluster/MESA",
        "SPIFFE://prod/cluster/mesa",
        "https://prod/cluster/mesa",
        "spiffe://prod/cluster/-mesa",
        "spiffe://prod/cluster/mesa-",
        "spiffe://prod/cluster/me.sa",
        "spiffe://prod/cluster/*",
        "spiffe://prod/cluster/mesa\n",
        "spiffe://prod/cluster/m\u00e9sa",
        f"spiffe://prod/cluster/{'a' * (MAX_LABEL + 1)}",
        f"spiffe://{'a' * (MAX_LABEL + 1)}/cluster/mesa",
    ],
)
def test_every_other_uri_names_nobody(text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_identity(text)
    assert caught.value.code == "no_cluster_identity"
    assert caught.value.cure


def test_the_longest_label_is_a_label() -> None:
    assert is_label("a" * MAX_LABEL)
    assert not is_label("a" * (MAX_LABEL + 1))
    assert not is_label("")


def test_a_certificate_speaks_for_the_cluster_in_its_uri() -> None:
    issuer = authority()
    issued = changed(pair(issuer), issuer, instead=[names(uri(GOOD), x509.DNSName("other"))])
    assert identity_of(issued.certificate) == PeerIdentity("prod", "mesa")


@pytest.mark.parametrize(
    "values",
    [
        [x509.DNSName("mesa")],
        [x509.DNSName("*.prod")],
        [uri(GOOD), uri("spiffe://prod/cluster/fjord")],
        [uri(GOOD), uri(GOOD)],
        [uri(GOOD), uri("https://mesa.example")],
        [uri("spiffe://prod")],
        [uri("")],
    ],
)
def test_a_certificate_without_exactly_one_identity_speaks_for_nobody(
    values: list[x509.GeneralName],
) -> None:
    issuer = authority()
    issued = changed(pair(issuer), issuer, instead=[names(*values)])
    with pytest.raises(ProtocolError) as caught:
        identity_of(issued.certificate)
    assert caught.value.code == "no_cluster_identity"


def test_the_common_name_is_never_read() -> None:
    issuer = authority()
    issued = changed(pair(issuer, "mesa"), issuer, without=[x509.SubjectAlternativeName])
    assert issued.certificate.subject.rfc4514_string() == "CN=mesa"
    with pytest.raises(ProtocolError) as caught:
        identity_of(issued.certificate)
    assert caught.value.code == "no_cluster_identity"


def test_extensions_that_cannot_be_read_name_nobody() -> None:
    issuer = authority()
    san = x509.SubjectAlternativeName.oid
    broken = x509.UnrecognizedExtension(san, b"\x30\x03\x86\x01\xff")
    issued = changed(
        pair(issuer), issuer, without=[x509.SubjectAlternativeName], instead=[(broken, False)]
    )
    assert issued.certificate.signature_hash_algorithm is not None
    assert isinstance(issued.certificate.signature_hash_algorithm, SHA256)
    with pytest.raises(ProtocolError) as caught:
        identity_of(issued.certificate)
    assert caught.value.code == "no_cluster_identity"
