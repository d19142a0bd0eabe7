"""Whose word a head is: signatures, chains, times and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from crdt import Base, Head, Origin
from replicator.errors import ProtocolError
from replicator.messages import Record
from replicator.pki import Authority, Issued
from replicator.signing import CertificateSigner, PrivateKey, TrustStore, der, key_id_of
from tests.support import certificates
from tests.support.certificates import CLUSTER, CLUSTERSET, names, now, pair, uri

HOUR_NS = 3600 * 1_000_000_000
ROOT = certificates.authority()
ISSUED = pair(ROOT)
IDENTITY = names(uri(f"spiffe://{CLUSTERSET}/cluster/{CLUSTER}"))


def ns(moment: datetime) -> int:
    """Unix nanoseconds."""
    return int(moment.timestamp()) * 1_000_000_000


def unsigned(key_id: bytes, issued_at: int | None = None) -> Head:
    """A head of fjord."""
    base = Base(1, 4, b"b" * 32)
    at = ns(now()) if issued_at is None else issued_at
    return Head(Origin(CLUSTER), 2, base, 9, 3, 7, b"r" * 32, at, at - 5, key_id)


def signed(
    issued: Issued, chain: Sequence[x509.Certificate] = (), issued_at: int | None = None
) -> tuple[Head, Record]:
    """A head signed with a certificate's key, and its record."""
    signer = CertificateSigner(issued.key, [der(issued.certificate), *map(der, chain)])
    head = unsigned(signer.key_id, issued_at)
    head = head.signed(signer.sign(head.canonical()))
    return head, Record(head.origin, signer.key_id, signer.chain)


def trust(*roots: Authority, clusterset: str = CLUSTERSET) -> TrustStore:
    """A store that trusts these."""
    return TrustStore([root.certificate for root in roots or (ROOT,)], clusterset)


def refusal(head: Head, record: Record, store: TrustStore | None = None) -> str:
    """The code of the refusal."""
    with pytest.raises(ProtocolError) as caught:
        (store or trust()).verify(head, record)
    return caught.value.code


def certificate(
    key: PrivateKey | rsa.RSAPrivateKey,
    issuer: Authority,
    *extensions: tuple[x509.ExtensionType, bool],
) -> x509.Certificate:
    """A certificate for any key with any extensions."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "any")]))
        .issuer_name(issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - timedelta(hours=1))
        .not_valid_after(now() + timedelta(days=1))
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(issuer.key, SHA256())


def intermediate(issuer: Authority, *, path_length: int | None = None) -> Authority:
    """An authority below ``issuer``."""
    key = certificates.new_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"below {path_length}")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - timedelta(hours=1))
        .not_valid_after(now() + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .sign(issuer.key, SHA256())
    )
    return Authority(issuer.clusterset, made, key)


def leaf(issuer: Authority) -> Issued:
    """A certificate of fjord from any authority."""
    key = certificates.new_key()
    return Issued(certificate(key, issuer, IDENTITY), key)


def loose_root() -> Authority:
    """A root that may have any authorities below it."""
    constraints = (x509.BasicConstraints(ca=True, path_length=None), True)
    return certificates.changed_authority(ROOT, instead=[constraints])


def test_a_head_signed_with_its_clusters_certificate_is_taken() -> None:
    head, record = signed(ISSUED)
    store = trust()
    store.verify(head, record)
    store.verify(head, record)


def test_an_ed25519_key_signs_too() -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    head, record = signed(Issued(certificate(key, ROOT, IDENTITY), key))
    trust().verify(head, record)
    assert refusal(head.signed(b"x" * 64), record) == "bad_signature"


@pytest.mark.parametrize("field", [name for name in Head.__slots__ if name != "signature"])
def test_a_change_of_any_field_breaks_the_signature(field: str) -> None:
    head, record = signed(ISSUED)
    value = getattr(head, field)
    if isinstance(value, bytes):
        value = bytes((value[0] ^ 1, *value[1:]))
    other = Origin("mesa") if field == "origin" else None if field == "base" else value
    changed = replace(head, **{field: other if other is not value else _stepped(value)})  # type: ignore[arg-type]
    codes = {"origin": "unknown_key", "key_id": "unknown_key"}
    assert refusal(changed, record) == codes.get(field, "bad_signature")
    if field == "origin":
        moved = replace(record, origin=Origin("mesa"))
        assert refusal(changed, moved) == "identity_mismatch"


def _stepped(value: object) -> object:
    return value + 1 if isinstance(value, int) else value


def test_every_flipped_bit_of_a_signature_is_refused() -> None:
    head, record = signed(ISSUED)
    for at in range(len(head.signature)):
        bad = bytearray(head.signature)
        bad[at] ^= 0x10
        assert refusal(head.signed(bytes(bad)), record) == "bad_signature"
    for bad_length in (b"", head.signature[:-1], head.signature + b"\0"):
        assert refusal(head.signed(bad_length), record) == "bad_signature"


def test_c57_another_clusters_key_signs_nothing_of_ours() -> None:
    mesa = pair(ROOT, "mesa")
    head, record = signed(mesa)
    assert refusal(head, record) == "identity_mismatch"


def test_another_clusterset_under_the_same_root_is_another_world() -> None:
    head, record = signed(ISSUED)
    assert refusal(head, record, trust(clusterset="staging")) == "identity_mismatch"


def test_a_foreign_root_is_not_trusted() -> None:
    other = certificates.authority()
    head, record = signed(pair(other))
    assert refusal(head, record) == "untrusted_chain"
    assert refusal(head, record, TrustStore([], CLUSTERSET)) == "untrusted_chain"
    trust(ROOT, other).verify(head, record)
    with_its_root = Record(head.origin, head.key_id, (*record.chain, der(other.certificate)))
    assert refusal(head, with_its_root) == "untrusted_chain"


@pytest.mark.parametrize(
    ("issued_at", "code"),
    [
        (ns(ISSUED.certificate.not_valid_before_utc), None),
        (ns(ISSUED.certificate.not_valid_before_utc) - 24 * HOUR_NS, None),
        (ns(ISSUED.certificate.not_valid_before_utc) - 24 * HOUR_NS - 1, "certificate_not_valid"),
        (ns(ISSUED.certificate.not_valid_after_utc), None),
        (ns(ISSUED.certificate.not_valid_after_utc) + 1, "certificate_not_valid"),
        (0, "certificate_not_valid"),
    ],
)
def test_the_certificate_was_valid_when_the_head_was_issued(
    issued_at: int, code: str | None
) -> None:
    head, record = signed(ISSUED, issued_at=issued_at)
    # The root's own dates bound it as well.
    dated = certificates.changed_authority(ROOT, start=now() - timedelta(days=9))
    store = trust(dated)
    if code is None:
        store.verify(head, record)
    else:
        assert refusal(head, record, store) == code


def test_the_dates_of_the_root_count_too() -> None:
    old = certificates.changed_authority(ROOT, end=now() - timedelta(minutes=1))
    head, record = signed(ISSUED)
    assert refusal(head, record, trust(old)) == "certificate_not_valid"


def test_a_chain_leads_over_authorities_to_the_root() -> None:
    root = loose_root()
    upper = intermediate(root)
    lower = intermediate(upper)
    end = leaf(lower)
    middle = [lower.certificate, upper.certificate]
    trust(root).verify(*signed(end, middle))
    trust(root).verify(*signed(end, [*middle, root.certificate]))
    for broken in ([], [upper.certificate], middle[::-1], [lower.certificate]):
        assert refusal(*signed(end, broken), trust(root)) == "untrusted_chain"


def test_a_path_is_as_long_as_its_authorities_allow() -> None:
    root = loose_root()
    upper = intermediate(root, path_length=0)
    trust(root).verify(*signed(leaf(upper), [upper.certificate]))
    lower = intermediate(upper)
    chain = [lower.certificate, upper.certificate]
    assert refusal(*signed(leaf(lower), chain), trust(root)) == "untrusted_chain"
    # Roots that `replicator` makes have no authorities below them.
    below = intermediate(ROOT)
    assert refusal(*signed(leaf(below), [below.certificate])) == "untrusted_chain"


def test_who_is_no_authority_issues_nothing() -> None:
    root = loose_root()
    mesa = pair(root, "mesa")
    false = Authority(CLUSTERSET, mesa.certificate, mesa.key)
    assert refusal(*signed(leaf(false), [mesa.certificate]), trust(root)) == "untrusted_chain"
    key = certificates.new_key()
    bare = Authority(CLUSTERSET, certificate(key, root), key)
    assert refusal(*signed(leaf(bare), [bare.certificate]), trust(root)) == "untrusted_chain"
    signs_nothing = (
        x509.KeyUsage(*([True] + [False] * 8)),
        True,
    )
    usage = certificates.changed_authority(ROOT, instead=[signs_nothing])
    assert refusal(*signed(ISSUED), trust(usage)) == "untrusted_chain"


def test_a_record_holds_the_key_it_names() -> None:
    head, record = signed(ISSUED)
    other = pair(ROOT)
    assert refusal(head, replace(record, key_id=b"x" * 16)) == "unknown_key"
    swapped = Record(head.origin, head.key_id, (der(other.certificate),))
    assert refusal(head, swapped) == "unknown_key"
    assert key_id_of(record.chain[0]) == record.key_id


def broken_chains() -> dict[str, bytes]:
    """Certificates that somebody made up."""
    good = der(ISSUED.certificate)
    spki = good.index(bytes.fromhex("06072a8648ce3d0201"))
    algorithm = bytes.fromhex("06082a8648ce3d040302")
    san = good.index(bytes.fromhex("0603551d11"))
    ski = good.index(bytes.fromhex("0603551d0e"))
    return {
        "nothing": b"",
        "noise": b"noise",
        "cut short": good[:-1],
        "a key of an unknown kind": good[: spki + 8] + b"\x7f" + good[spki + 9 :],
        "an unknown signature algorithm": good.replace(algorithm, algorithm[:-1] + b"\x7f"),
        "an extension twice": good[: ski + 4] + good[san + 4 : san + 5] + good[ski + 5 :],
    }


BROKEN = broken_chains()


@pytest.mark.parametrize("name", BROKEN)
def test_a_chain_that_is_no_chain_is_refused_with_the_typed_error(name: str) -> None:
    key_id = key_id_of(BROKEN[name])
    head = unsigned(key_id).signed(b"s")
    record = Record(head.origin, key_id, (BROKEN[name],))
    assert refusal(head, record) in {"untrusted_chain", "no_cluster_identity"}
    behind = signed(leaf(intermediate(loose_root())))
    longer = Record(head.origin, behind[0].key_id, (*behind[1].chain, BROKEN[name]))
    assert refusal(behind[0], longer) == "untrusted_chain"


def test_every_cut_of_a_certificate_is_refused_with_the_typed_error() -> None:
    good = der(ISSUED.certificate)
    for length in range(0, len(good), 7):
        key_id = key_id_of(good[:length])
        head = unsigned(key_id)
        refusal(head, Record(head.origin, key_id, (good[:length],)))


@pytest.mark.parametrize(
    "extensions",
    [
        [],
        [names(x509.DNSName(f"{CLUSTER}.example"))],
        [names(uri(f"spiffe://{CLUSTERSET}/cluster/{CLUSTER}"), uri("spiffe://x/cluster/y"))],
        [names(uri(f"spiffe://{CLUSTERSET}/ns/{CLUSTER}"))],
        [names(uri(f"spiffe://{CLUSTERSET}/cluster/*"))],
    ],
    ids=["no_san", "no uri", "two_cluster_uris", "wrong form", "wildcard"],
)
def test_c57_without_one_identity_a_certificate_speaks_for_nobody(
    extensions: list[tuple[x509.ExtensionType, bool]],
) -> None:
    key = certificates.new_key()
    head, record = signed(Issued(certificate(key, ROOT, *extensions), key))
    assert refusal(head, record) == "no_cluster_identity"


def test_an_rsa_key_signs_no_heads() -> None:
    key = rsa.generate_private_key(65_537, 2048)
    made = certificate(key, ROOT, IDENTITY)
    head = unsigned(key_id_of(der(made))).signed(b"s")
    assert refusal(head, Record(head.origin, head.key_id, (der(made),))) == "untrusted_chain"


def test_an_elliptic_key_signs_by_its_own_curve() -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    head, record = signed(Issued(certificate(key, ROOT, IDENTITY), key))
    trust().verify(head, record)


def test_chains_seen_before_are_not_checked_again_and_not_kept_for_ever() -> None:
    store = TrustStore([ROOT.certificate], CLUSTERSET, remembered=1)
    head, record = signed(ISSUED)
    store.verify(head, record)
    store.verify(*signed(pair(ROOT)))
    assert list(store._verified) != [record.chain]
    store.verify(head, record)
    assert list(store._verified) == [record.chain]
