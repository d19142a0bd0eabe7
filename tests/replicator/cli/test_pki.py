"""``pki init|issue|check`` as a user meets them (cases C61, C62)."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from replicator.pem import key_pem, load_certificates
from tests.replicator.cli.command import run
from tests.support.certificates import (
    authority,
    changed,
    changed_authority,
    handshake,
    new_key,
    now,
    pair,
    soon,
    write,
)

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def ca(capsys: Capture, tmp_path: Path) -> Path:
    """A folder with an authority made by the command."""
    folder = tmp_path / "ca"
    assert run(capsys, "pki", "init", folder, "--clusterset", "prod").status == 0
    return folder


def test_what_is_issued_is_good_and_shakes_hands(capsys: Capture, tmp_path: Path, ca: Path) -> None:
    for cluster in ("fjord", "mesa"):
        done = run(
            capsys,
            *("pki", "issue", tmp_path / cluster, "--ca", ca, "--cluster", cluster),
            *("--host", "10.0.0.1", "--host", "fjord.example", "--days", "4"),
        )
        assert (done.status, done.err) == (0, "")
    checked = run(capsys, "pki", "check", tmp_path / "fjord" / "tls.crt")
    assert (checked.status, checked.err) == (0, "")
    assert "spiffe://prod/cluster/fjord" in checked.out
    assert "(4 days)" in checked.out or "(3 days)" in checked.out
    assert handshake(tmp_path / "fjord", tmp_path / "mesa") is None


def test_a_pair_or_an_authority_is_never_overwritten(
    capsys: Capture, tmp_path: Path, ca: Path
) -> None:
    issue = ("pki", "issue", tmp_path / "f", "--ca", ca, "--cluster", "f", "--host", "h")
    assert run(capsys, *issue).status == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    for command in (issue, ("pki", "init", ca, "--clusterset", "prod")):
        done = run(capsys, *command)
        assert done.status == 2
        assert "never overwritten" in done.error
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--cluster", "F", "--host", "h"], "not a DNS label"),
        (["--cluster", "f", "--host", "h:1"], "no host"),
        (["--cluster", "f", "--host", "h", "--clusterset", "dev"], "not dev"),
        (["--cluster", "f", "--host", "h", "--ca", "nowhere"], "cannot read nowhere"),
    ],
)
def test_bad_input_of_issue_is_one_line_and_writes_nothing(
    capsys: Capture, tmp_path: Path, ca: Path, options: list[str], what: str
) -> None:
    done = run(capsys, "pki", "issue", tmp_path / "f", "--ca", ca, *options)
    assert done.status == 2
    assert what in done.error
    assert not (tmp_path / "f").exists()


def test_each_missing_extension_is_named_and_the_status_is_1(
    capsys: Capture, tmp_path: Path
) -> None:
    issuer = authority()
    kinds: list[type[x509.ExtensionType]] = [x509.AuthorityKeyIdentifier, x509.KeyUsage]
    bad_issuer = changed_authority(issuer, without=[x509.KeyUsage])
    path = write(tmp_path, changed(pair(issuer), issuer, without=kinds), [bad_issuer.certificate])
    done = run(capsys, "pki", "check", path)
    assert done.status == 1
    lines = done.out.splitlines()
    assert len(lines) == 3
    assert "no authority key identifier extension" in lines[0]
    assert "no key usage extension" in lines[1]
    assert "authority CN=prod has no key usage extension" in lines[2]
    assert all("; issue a new one" in line or "; make a new" in line for line in lines)
    assert done.error.endswith("3 found")


def test_a_certificate_that_ends_within_72_hours_has_status_1_and_its_days_in_json(
    capsys: Capture, tmp_path: Path
) -> None:
    issuer, end = authority(), soon(71)
    path = write(tmp_path, changed(pair(issuer), issuer, end=end), [issuer.certificate])
    done = run(capsys, "pki", "check", path, "-o", "json")
    assert done.status == 1
    document = done.document
    assert document["days_left"] == 2
    assert document["expires_at"].endswith("Z")
    assert datetime.fromisoformat(document["expires_at"]) == end
    assert [finding["code"] for finding in document["findings"]] == ["expires_soon"]
    assert not document["good"]


def test_documents_are_the_same_as_json_and_yaml(capsys: Capture, tmp_path: Path) -> None:
    issuer = authority()
    path = write(tmp_path, pair(issuer), [issuer.certificate])
    as_json = run(capsys, "pki", "check", path, "-o", "json")
    as_yaml = run(capsys, "pki", "check", path, "-o", "yaml")
    assert as_json.status == as_yaml.status == 0
    assert yaml.safe_load(as_yaml.out)["identity"] == as_json.document["identity"]
    assert as_json.out == json.dumps(as_json.document, indent=2, sort_keys=True) + "\n"


def test_the_key_and_the_bundle_beside_the_certificate_are_checked(
    capsys: Capture, tmp_path: Path
) -> None:
    issuer = authority()
    path = write(tmp_path, pair(issuer), [authority().certificate])
    path.with_suffix(".key").write_bytes(key_pem(new_key()))
    done = run(capsys, "pki", "check", path)
    assert done.status == 1
    assert "tls.key is not the key" in done.out
    assert "the chain ends at CN=fjord" in done.out


def test_other_files_can_be_named(capsys: Capture, tmp_path: Path) -> None:
    issuer = authority()
    path = write(tmp_path / "a", pair(issuer), [authority().certificate])
    other = write(tmp_path / "b", pair(issuer), [issuer.certificate])
    done = run(capsys, "pki", "check", path, "--ca", other.with_name("ca.crt"))
    assert done.status == 0
    done = run(capsys, "pki", "check", path, "--key", other.with_suffix(".key"))
    assert done.status == 1


def test_what_was_not_checked_is_said(capsys: Capture, tmp_path: Path) -> None:
    issuer = authority()
    path = write(tmp_path, pair(issuer), [issuer.certificate])
    path.with_suffix(".key").unlink()
    path.with_name("ca.crt").unlink()
    done = run(capsys, "pki", "check", path)
    assert done.status == 0
    assert done.err.splitlines() == [
        "the key was not checked; name it with --key FILE",
        "the chain was not checked; name it with --ca FILE",
    ]


def test_a_bundle_is_checked_too(capsys: Capture, tmp_path: Path) -> None:
    old, new = changed_authority(authority(), end=soon(-0.1)), authority()
    path = write(tmp_path, pair(new), [new.certificate, old.certificate]).with_name("ca.crt")
    done = run(capsys, "pki", "check", path)
    assert done.status == 1
    assert "ended at" in done.out
    path.write_bytes(path.read_bytes()[: path.read_bytes().index(b"-----END") + 25])
    done = run(capsys, "pki", "check", path)
    assert (done.status, done.err) == (0, "")
    assert "trust bundle" in done.out


@pytest.mark.parametrize("data", [None, b"", b"not a certificate"])
def test_a_file_that_is_no_certificate_is_bad_input(
    capsys: Capture, tmp_path: Path, data: bytes | None
) -> None:
    path = tmp_path / "tls.crt"
    if data is not None:
        path.write_bytes(data)
    done = run(capsys, "pki", "check", path)
    assert (done.status, done.out) == (2, "")
    assert "tls.crt" in done.error


def test_how_long_it_is_valid_can_be_chosen(capsys: Capture, tmp_path: Path) -> None:
    run(capsys, "pki", "init", tmp_path, "--clusterset", "prod", "--days", "7")
    end = load_certificates(tmp_path / "ca.crt")[0].not_valid_after_utc
    assert (end - now()).days in {6, 7}
    done = run(capsys, "pki", "init", tmp_path / "x", "--clusterset", "prod", "--days", "0")
    assert done.status == 2
