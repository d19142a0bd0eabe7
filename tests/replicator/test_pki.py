"""Certificates: ours pass strict verification, and each defect that check names does not (C61)."""

from __future__ import annotations

import stat
from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from replicator.errors import InputError, PkiError
from replicator.identity import PeerIdentity
from replicator.pem import (
    certificates_pem,
    key_pem,
    load_certificates,
    load_key,
    parse_certificates,
    parse_key,
    write_new,
)
from replicator.pki import (
    Authority,
    Issued,
    check,
    check_bundle,
    create_ca,
    issue,
    load_authority,
    parse_host,
    save_authority,
    save_pair,
)
from tests.support.certificates import (
    CLUSTER,
    CLUSTERSET,
    HOST,
    authority,
    changed,
    changed_authority,
    handshake,
    names,
    new_key,
    now,
    pair,
    soon,
    uri,
    write,
)

Defect = Callable[[Issued, Authority], Issued]
GOOD_URI = uri(f"spiffe://{CLUSTERSET}/cluster/{CLUSTER}")


def codes(certificate: Path) -> list[str]:
    """What check finds in a folder as ``write`` lays it out."""
    key, bundle = certificate.with_suffix(".key"), certificate.with_name("ca.crt")
    return [finding.code for finding in check(certificate, now(), key=key, bundle=bundle).findings]


# ---- what we make ------------------------------------------------------------------------------


def test_a_certificate_of_ours_is_good_and_passes_a_strict_handshake(tmp_path: Path) -> None:
    issuer = authority()
    roots = [issuer.certificate]
    fjord = write(tmp_path / "fjord", pair(issuer), roots)
    mesa = write(tmp_path / "mesa", pair(issuer, "mesa"), roots)
    report = check(fjord, now(), key=fjord.with_suffix(".key"), bundle=fjord.with_name("ca.crt"))
    assert report.good
    assert report.identity == PeerIdentity(CLUSTERSET, CLUSTER)
    assert codes(mesa) == []
    assert handshake(fjord.parent, mesa.parent) is None


def test_a_certificate_of_ours_carries_what_was_promised() -> None:
    issuer = authority()
    leaf = issue(issuer, CLUSTER, [HOST, "10.0.0.1", "::1"], now()).certificate

    def extension(kind: type[x509.ExtensionType]) -> x509.Extension[x509.ExtensionType]:
        return leaf.extensions.get_extension_for_class(kind)

    san = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert san.get_values_for_type(x509.UniformResourceIdentifier) == [GOOD_URI.value]
    assert san.get_values_for_type(x509.DNSName) == [HOST]
    assert san.get_values_for_type(x509.IPAddress) == [ip_address("10.0.0.1"), ip_address("::1")]
    assert set(leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == {
        ExtendedKeyUsageOID.SERVER_AUTH,
        ExtendedKeyUsageOID.CLIENT_AUTH,
    }
    assert extension(x509.KeyUsage).critical
    assert extension(x509.BasicConstraints).critical
    authority_id = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    held = issuer.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert authority_id.key_identifier == held.digest
    assert not extension(x509.SubjectKeyIdentifier).critical


def test_every_certificate_has_a_serial_number_and_key_of_its_own() -> None:
    issuer = authority()
    issued = [pair(issuer) for _ in range(3)]
    assert len({one.certificate.serial_number for one in issued}) == 3
    assert len({key_pem(one.key) for one in issued}) == 3


def test_a_certificate_is_valid_an_hour_back_and_never_outlives_its_authority() -> None:
    moment = now()
    issuer = create_ca(CLUSTERSET, moment, days=5)
    long = issue(issuer, CLUSTER, [HOST], moment, days=365).certificate
    short = issue(issuer, CLUSTER, [HOST], moment, days=1).certificate
    assert long.not_valid_before_utc == moment - timedelta(hours=1)
    assert long.not_valid_after_utc == issuer.certificate.not_valid_after_utc
    assert short.not_valid_after_utc == moment + timedelta(days=1)


@pytest.mark.parametrize("name", ["", "Prod", "a.b", "-", "a" * 64, "a b", "a/b"])
def test_only_dns_labels_are_names(name: str) -> None:
    with pytest.raises(InputError):
        create_ca(name, now())
    with pytest.raises(InputError):
        issue(authority(), name, [HOST], now())


def test_the_longest_names_fit(tmp_path: Path) -> None:
    issuer = create_ca("s" * 63, now())
    issued = issue(issuer, "c" * 63, [HOST], now())
    assert codes(write(tmp_path, issued, [issuer.certificate])) == []


@pytest.mark.parametrize("host", ["a", "a.b-c.example", "A.Example.", "10.1.2.3", "::1", "fd00::1"])
def test_a_host_is_a_dns_name_or_an_ip_address(host: str) -> None:
    shown = str(parse_host(host).value)
    assert shown == host.lower().removesuffix(".")


@pytest.mark.parametrize(
    "host",
    [
        *("", ".", "a..b", "-a", "a_b", "a b", "*", "*.a", "1.2.3.4.5", "1.2.3", "fe80::1%eth0"),
        *("[::1]", "a:1", "caf\u00e9", "a" * 64, ".".join(["a"] * 130)),
    ],
)
def test_anything_else_is_no_host(host: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_host(host)
    assert caught.value.cure


# ---- each defect: found by name, and refused by OpenSSL ----------------------------------------

SERVER_ONLY = (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
CLIENT_ONLY = (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False)


def usage(*, signature: bool = False, authority: bool = False) -> tuple[x509.ExtensionType, bool]:
    """A key usage that allows what is named; encipherment always."""
    flags = [signature, False, True, False, False, authority, False, False, False]
    return x509.KeyUsage(*flags), True


def foreign_id() -> tuple[x509.ExtensionType, bool]:
    """An authority key identifier of nobody's."""
    return x509.AuthorityKeyIdentifier(b"\1" * 20, None, None), False


LEAF_DEFECTS: list[tuple[str, Defect, bool]] = [
    (
        "missing_authority_key_identifier",
        lambda i, a: changed(i, a, without=[x509.AuthorityKeyIdentifier]),
        True,
    ),
    ("wrong_authority_key_identifier", lambda i, a: changed(i, a, instead=[foreign_id()]), True),
    (
        "missing_subject_key_identifier",
        lambda i, a: changed(i, a, without=[x509.SubjectKeyIdentifier]),
        False,
    ),
    ("missing_key_usage", lambda i, a: changed(i, a, without=[x509.KeyUsage]), False),
    (
        "missing_extended_key_usage",
        lambda i, a: changed(i, a, without=[x509.ExtendedKeyUsage]),
        False,
    ),
    ("wrong_key_usage", lambda i, a: changed(i, a, instead=[usage()]), True),
    ("wrong_extended_key_usage", lambda i, a: changed(i, a, instead=[SERVER_ONLY]), True),
    ("wrong_extended_key_usage", lambda i, a: changed(i, a, instead=[CLIENT_ONLY]), True),
    ("expired", lambda i, a: changed(i, a, end=soon(-0.1)), True),
    ("not_yet_valid", lambda i, a: changed(i, a, start=soon(1)), True),
    ("expires_soon", lambda i, a: changed(i, a, end=soon(71)), False),
    (
        "no_cluster_identity",
        lambda i, a: changed(i, a, instead=[names(x509.DNSName(HOST))]),
        False,
    ),
    ("no_cluster_identity", lambda i, a: changed(i, a, instead=[names(uri("https://x"))]), False),
]


@pytest.mark.parametrize(("code", "defect", "refused"), LEAF_DEFECTS)
def test_one_defect_of_a_certificate_is_the_one_thing_found(
    tmp_path: Path, code: str, defect: Defect, *, refused: bool
) -> None:
    issuer = authority()
    roots = [issuer.certificate]
    bad = write(tmp_path / "bad", defect(pair(issuer), issuer), roots)
    good = write(tmp_path / "good", pair(issuer, "mesa"), roots)
    assert codes(bad) == [code]
    as_server = handshake(bad.parent, good.parent)
    as_client = handshake(good.parent, bad.parent)
    assert (as_server is not None or as_client is not None) == refused


def test_a_certificate_without_any_extension_names_each_that_is_missing(tmp_path: Path) -> None:
    issuer = authority()
    kinds: list[type[x509.ExtensionType]] = [
        *(x509.SubjectAlternativeName, x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier),
        *(x509.KeyUsage, x509.ExtendedKeyUsage, x509.BasicConstraints),
    ]
    bare = changed(pair(issuer), issuer, without=kinds)
    found = codes(write(tmp_path, bare, [issuer.certificate]))
    assert found == [
        "missing_subject_alternative_name",
        "missing_subject_key_identifier",
        "missing_authority_key_identifier",
        "missing_key_usage",
        "missing_extended_key_usage",
        "no_cluster_identity",
    ]


AUTHORITY_DEFECTS: list[tuple[str, Callable[[Authority], Authority], bool]] = [
    ("missing_key_usage", lambda a: changed_authority(a, without=[x509.KeyUsage]), True),
    (
        "missing_subject_key_identifier",
        lambda a: changed_authority(a, without=[x509.SubjectKeyIdentifier]),
        True,
    ),
    ("wrong_key_usage", lambda a: changed_authority(a, instead=[usage(signature=True)]), True),
    (
        "wrong_basic_constraints",
        lambda a: changed_authority(
            a, instead=[(x509.BasicConstraints(ca=True, path_length=0), False)]
        ),
        True,
    ),
    ("expired", lambda a: changed_authority(a, end=soon(-0.1)), True),
    ("expires_soon", lambda a: changed_authority(a, end=soon(71)), False),
]


@pytest.mark.parametrize(("code", "defect", "refused"), AUTHORITY_DEFECTS)
def test_one_defect_of_the_authority_is_found_through_the_certificate_and_in_the_bundle(
    tmp_path: Path, code: str, defect: Callable[[Authority], Authority], *, refused: bool
) -> None:
    issuer = authority()
    bad = [defect(issuer).certificate]
    fjord = write(tmp_path / "fjord", pair(issuer), bad)
    mesa = write(tmp_path / "mesa", pair(issuer, "mesa"), bad)
    bundle = check_bundle(fjord.with_name("ca.crt"), now())
    assert codes(fjord) == [code]
    assert [finding.code for finding in bundle.findings] == [code]
    assert (handshake(fjord.parent, mesa.parent) is not None) == refused


def test_another_key_is_a_mismatch(tmp_path: Path) -> None:
    issuer = authority()
    fjord = write(tmp_path, pair(issuer), [issuer.certificate])
    fjord.with_suffix(".key").write_bytes(key_pem(new_key()))
    assert codes(fjord) == ["key_mismatch"]


def test_an_authority_that_the_bundle_lacks_is_an_untrusted_chain(tmp_path: Path) -> None:
    # Same name, other key: the name alone proves nothing.
    fjord = write(tmp_path, pair(authority()), [authority().certificate])
    assert codes(fjord) == ["untrusted_chain"]


def test_a_chain_over_an_authority_in_between_is_followed(tmp_path: Path) -> None:
    root = changed_authority(
        authority(), instead=[(x509.BasicConstraints(ca=True, path_length=1), True)]
    )
    middle = between(root)
    fjord = write(tmp_path / "fjord", pair(middle), [root.certificate])
    mesa = write(tmp_path / "mesa", pair(middle, "mesa"), [root.certificate])
    assert codes(fjord) == ["untrusted_chain"]
    for certificate in (fjord, mesa):
        certificate.write_bytes(certificate.read_bytes() + certificates_pem([middle.certificate]))
        assert codes(certificate) == []
    assert handshake(fjord.parent, mesa.parent) is None


def test_more_authorities_than_the_root_allows_are_found(tmp_path: Path) -> None:
    root = authority()
    middle = between(root)
    fjord = write(tmp_path / "fjord", pair(middle), [root.certificate])
    mesa = write(tmp_path / "mesa", pair(middle, "mesa"), [root.certificate])
    for certificate in (fjord, mesa):
        certificate.write_bytes(certificate.read_bytes() + certificates_pem([middle.certificate]))
        assert codes(certificate) == ["path_too_long"]
    assert handshake(fjord.parent, mesa.parent) is not None


def between(root: Authority) -> Authority:
    """An authority of the same clusterset whose certificate ``root`` issued."""
    key = new_key()
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    above = root.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "between")]))
        .issuer_name(root.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(root.certificate.not_valid_before_utc)
        .not_valid_after(root.certificate.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(authority=True)[0], critical=True)
        .add_extension(own, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(above), critical=False
        )
        .sign(root.key, SHA256())
    )
    return Authority(CLUSTERSET, certificate, key)


# ---- bundles: overlap and quirks (C62) ---------------------------------------------------------


def test_either_of_two_authorities_in_a_bundle_is_trusted(tmp_path: Path) -> None:
    old, new = authority(), authority()
    both = [old.certificate, new.certificate]
    fjord = write(tmp_path / "fjord", pair(old), both)
    mesa = write(tmp_path / "mesa", pair(new, "mesa"), both)
    assert codes(fjord) == codes(mesa) == []
    assert handshake(fjord.parent, mesa.parent) is None


def test_an_expired_authority_beside_a_good_one_does_not_harm_those_of_the_good_one(
    tmp_path: Path,
) -> None:
    old, new = changed_authority(authority(), end=soon(-0.1)), authority()
    fjord = write(tmp_path, pair(new), [old.certificate, new.certificate])
    assert codes(fjord) == []
    bundle = check_bundle(fjord.with_name("ca.crt"), now())
    assert [finding.code for finding in bundle.findings] == ["expired"]


@pytest.mark.parametrize(
    "quirk",
    [
        lambda a, b: a.rstrip() + b"\n" + b.rstrip(),
        lambda a, b: a.rstrip() + b.rstrip(),
        lambda a, b: (a + b).replace(b"\n", b"\r\n"),
        lambda a, b: b"subject=CN = prod\n\n" + a + b"# the new one\n" + b + b"\nend of file",
        lambda a, b: a + a + b + a,
        lambda a, b: b"\xef\xbb\xbf" + a + b"\n\n\n" + b,
        lambda a, b: a.replace(b"\n", b"\n  ").replace(b"  -----", b"-----") + b,
    ],
)
def test_quirks_of_pem_files_are_no_trouble(quirk: Callable[[bytes, bytes], bytes]) -> None:
    first, second = authority().certificate, authority().certificate
    data = quirk(certificates_pem([first]), certificates_pem([second]))
    assert parse_certificates(data, "bundle") == [first, second]


def test_a_cluster_certificate_in_a_bundle_is_refused_with_its_subject(tmp_path: Path) -> None:
    issuer = authority()
    leaf = pair(issuer, "mesa").certificate
    fjord = write(tmp_path, pair(issuer), [issuer.certificate, leaf])
    report = check_bundle(fjord.with_name("ca.crt"), now())
    assert [finding.code for finding in report.findings] == ["not_an_authority"]
    assert "CN=mesa" in report.findings[0].message
    assert codes(fjord) == ["not_an_authority"]


# ---- reports -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hours", "days", "found"),
    [(73, 3, []), (72, 3, []), (71, 2, ["expires_soon"]), (1, 0, ["expires_soon"])],
)
def test_a_report_counts_whole_days_and_warns_below_72_hours(
    tmp_path: Path, hours: int, days: int, found: list[str]
) -> None:
    issuer, moment = authority(), now()
    end = moment + timedelta(hours=hours)
    fjord = write(tmp_path, changed(pair(issuer), issuer, end=end), [issuer.certificate])
    report = check(fjord, moment, key=None, bundle=None)
    document = report.document(moment)
    assert [finding["code"] for finding in document["findings"]] == found
    assert document["days_left"] == days
    assert document["expires_at"] == end.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert document["good"] == report.good == (not found)
    assert report.usable


def test_a_certificate_that_is_over_has_negative_days_left(tmp_path: Path) -> None:
    issuer, moment = authority(), now()
    end = moment - timedelta(minutes=5)
    fjord = write(tmp_path, changed(pair(issuer), issuer, end=end), [issuer.certificate])
    report = check(fjord, moment, key=None, bundle=None)
    assert report.document(moment)["days_left"] == -1
    assert not report.usable


def test_a_file_of_authorities_is_reported_as_a_bundle(tmp_path: Path) -> None:
    first, second = authority(days=30), authority(days=20)
    path = tmp_path / "ca.crt"
    path.write_bytes(certificates_pem([first.certificate, second.certificate]))
    report = check(path, now(), key=None, bundle=None)
    assert (report.kind, report.identity, report.good) == ("bundle", None, True)
    assert report.expires_at == second.certificate.not_valid_after_utc


@pytest.mark.parametrize("name", ["tls.key", "ca.crt"])
@pytest.mark.parametrize("data", [None, b"", b"nonsense"])
def test_a_key_or_bundle_that_cannot_be_read_is_a_finding(
    tmp_path: Path, name: str, data: bytes | None
) -> None:
    issuer = authority()
    fjord = write(tmp_path, pair(issuer), [issuer.certificate])
    other = tmp_path / name
    other.unlink() if data is None else other.write_bytes(data)
    assert codes(fjord) == ["bad_certificate"]


# ---- files -------------------------------------------------------------------------------------


def damaged(data: bytes) -> bytes:
    """One letter of the base64 text exchanged."""
    middle = len(data) // 2
    return (
        data[:middle] + (b"A" if data[middle : middle + 1] != b"A" else b"B") + data[middle + 1 :]
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text",
        b"\xff\xfe",
        b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\n%%%%\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    ],
)
def test_what_is_no_certificate_is_one_error_naming_the_file(data: bytes) -> None:
    with pytest.raises(PkiError) as caught:
        parse_certificates(data, "tls.crt")
    assert "tls.crt" in caught.value.message
    assert caught.value.cure
    with pytest.raises(PkiError):
        parse_key(data, "tls.key")


def test_a_cut_certificate_is_one_error() -> None:
    lines = certificates_pem([authority().certificate]).splitlines(keepends=True)
    with pytest.raises(PkiError) as caught:
        parse_certificates(b"".join([*lines[:3], lines[-1]]), "tls.crt")
    assert "damaged" in caught.value.message


def test_both_kinds_of_key_are_read_and_written(tmp_path: Path) -> None:
    for name, key in (("a", new_key()), ("b", ed25519.Ed25519PrivateKey.generate())):
        write_new(tmp_path / name, key_pem(key), secret=True)
        assert load_key(tmp_path / name).public_key() == key.public_key()


def test_other_kinds_of_key_are_named_as_such() -> None:
    for key in (ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65537, 2048)):
        data = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        with pytest.raises(PkiError) as caught:
            parse_key(data, "tls.key")
        assert caught.value.code == "unsupported_key"


def test_a_locked_key_is_named_as_such() -> None:
    data = new_key().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    with pytest.raises(PkiError) as caught:
        parse_key(data, "tls.key")
    assert "password" in caught.value.message


def test_a_file_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "tls.key"
    write_new(path, b"one", secret=True)
    with pytest.raises(PkiError) as caught:
        write_new(path, b"two", secret=True)
    assert caught.value.code == "exists"
    assert path.read_bytes() == b"one"


def test_a_link_is_not_followed_when_writing(tmp_path: Path) -> None:
    (tmp_path / "tls.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PkiError):
        write_new(tmp_path / "tls.key", b"x", secret=True)
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(PkiError) as caught:
        write_new(tmp_path / "no" / "tls.key", b"x")
    assert caught.value.code == "not_written"


def test_a_file_too_large_or_missing_is_one_error(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"x" * ((1 << 20) + 1))
    for path in (large, tmp_path / "missing", tmp_path):
        with pytest.raises(PkiError) as caught:
            load_certificates(path)
        assert str(path) in caught.value.message


def test_keys_are_readable_only_to_their_owner(tmp_path: Path) -> None:
    issuer = authority()
    save_authority(issuer, tmp_path / "ca")
    save_pair(pair(issuer), issuer, tmp_path / "fjord")
    modes = {
        str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode)
        for path in tmp_path.rglob("*.*")
    }
    assert modes["ca/ca.key"] == modes["fjord/tls.key"] == 0o600
    assert set(modes) == {
        *("ca/ca.crt", "ca/ca.key", "fjord/ca.crt", "fjord/tls.crt", "fjord/tls.key")
    }
    assert stat.S_IMODE((tmp_path / "ca").stat().st_mode) == 0o700


# ---- the authority's folder --------------------------------------------------------------------


def test_an_authority_reads_back_with_its_clusterset(tmp_path: Path) -> None:
    made = authority()
    save_authority(made, tmp_path)
    found = load_authority(tmp_path, now())
    assert (found.clusterset, found.certificate) == (CLUSTERSET, made.certificate)
    assert found.key.public_key() == made.key.public_key()


def test_an_authority_of_another_clusterset_is_refused(tmp_path: Path) -> None:
    save_authority(authority(), tmp_path)
    with pytest.raises(InputError) as caught:
        load_authority(tmp_path, now(), "dev")
    assert "prod" in caught.value.message


def test_an_authority_made_elsewhere_needs_the_name_of_its_clusterset(tmp_path: Path) -> None:
    made = changed_authority(authority(), without=[x509.SubjectAlternativeName])
    save_authority(made, tmp_path)
    with pytest.raises(InputError) as caught:
        load_authority(tmp_path, now())
    assert "--clusterset" in caught.value.cure
    assert load_authority(tmp_path, now(), "dev").clusterset == "dev"


def test_an_authority_whose_names_are_others_needs_the_name_too(tmp_path: Path) -> None:
    made = changed_authority(authority(), instead=[names(uri("https://x"), uri("spiffe://A"))])
    save_authority(made, tmp_path)
    assert load_authority(tmp_path, now(), "dev").clusterset == "dev"


def test_an_authority_with_another_key_is_refused(tmp_path: Path) -> None:
    save_authority(Authority(CLUSTERSET, authority().certificate, new_key()), tmp_path)
    with pytest.raises(PkiError) as caught:
        load_authority(tmp_path, now())
    assert caught.value.code == "key_mismatch"


def test_an_authority_that_is_over_is_refused(tmp_path: Path) -> None:
    save_authority(changed_authority(authority(), end=soon(-0.1)), tmp_path)
    with pytest.raises(PkiError) as caught:
        load_authority(tmp_path, now())
    assert caught.value.code == "expired"


def test_an_authority_that_ends_soon_still_issues(tmp_path: Path) -> None:
    save_authority(changed_authority(authority(), end=soon(10)), tmp_path)
    assert load_authority(tmp_path, now()).clusterset == CLUSTERSET


def test_an_authority_with_an_ed25519_key_issues(tmp_path: Path) -> None:
    old, key = authority(), ed25519.Ed25519PrivateKey.generate()
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(old.certificate.subject)
        .issuer_name(old.certificate.subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(old.certificate.not_valid_before_utc)
        .not_valid_after(old.certificate.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(authority=True)[0], critical=True)
        .add_extension(identifier, critical=False)
    )
    issuer = Authority(CLUSTERSET, builder.sign(key, None), key)
    fjord = write(tmp_path / "fjord", pair(issuer), [issuer.certificate])
    mesa = write(tmp_path / "mesa", pair(issuer, "mesa"), [issuer.certificate])
    assert codes(fjord) == []
    assert handshake(fjord.parent, mesa.parent) is None
