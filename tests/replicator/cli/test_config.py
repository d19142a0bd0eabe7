"""``config check``: whether an agent could start, certificate and environment included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from replicator.pem import certificates_pem, key_pem
from tests.replicator.cli.command import run
from tests.support.certificates import authority, changed, new_key, pair, soon, write

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of ours from outside."""
    monkeypatch.delenv("REPLICATOR_AGENT", raising=False)


@pytest.fixture
def file(capsys: Capture, tmp_path: Path) -> Path:
    """The configuration of a cluster as ``init`` writes it."""
    members = ["--cluster=fjord=fjord:7443", "--cluster=mesa=mesa:7443"]
    assert run(capsys, "init", tmp_path / "m", "--clusterset=prod", *members).status == 0
    return tmp_path / "m" / "fjord" / "agent.yaml"


def edit(file: Path, old: str, new: str) -> None:
    """Change one line of a configuration."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_what_init_writes_is_good(capsys: Capture, file: Path) -> None:
    done = run(capsys, "config", "check", file)
    assert (done.status, done.err) == (0, "")
    assert "fjord of prod, peers: mesa" in done.out


def test_the_document_shows_the_configuration_and_the_certificate(
    capsys: Capture, file: Path
) -> None:
    document = run(capsys, "config", "check", file, "-o", "json").document
    assert document["config"]["cluster"] == "fjord"
    assert document["certificate"]["identity"] == "spiffe://prod/cluster/fjord"
    as_yaml = run(capsys, "config", "check", file, "-o", "yaml").out
    assert yaml.safe_load(as_yaml)["config"] == document["config"]


def test_no_key_is_ever_shown(capsys: Capture, file: Path) -> None:
    secret = file.with_name("tls.key").read_text(encoding="utf-8").splitlines()[1]
    for form in ("table", "json", "yaml"):
        done = run(capsys, "config", "check", file, "-o", form)
        assert secret not in done.out + done.err


def test_a_misspelt_key_is_one_line_with_the_nearest(capsys: Capture, file: Path) -> None:
    edit(file, "region:", "regoin:")
    done = run(capsys, "config", "check", file)
    assert (done.status, done.out) == (2, "")
    assert f"{file}:4: unknown key 'regoin'; did you mean region?" in done.error


def test_the_environment_is_checked_too(
    capsys: Capture, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLICATOR_STALE_AFTER", "soon")
    done = run(capsys, "config", "check", file)
    assert done.status == 2
    assert done.error.startswith("REPLICATOR_STALE_AFTER: stale.after: ")


@pytest.mark.parametrize(
    ("old", "new"), [('cluster: "fjord"', "cluster: reef"), ('"prod"', '"dev"')]
)
def test_a_certificate_of_another_cluster_or_clusterset_is_refused(
    capsys: Capture, file: Path, old: str, new: str
) -> None:
    edit(file, old, new)
    done = run(capsys, "config", "check", file)
    assert (done.status, done.out) == (2, "")
    assert "speaks for spiffe://prod/cluster/fjord" in done.error


def no_extension(folder: Path) -> None:
    """A certificate that strict peers refuse."""
    issuer = authority()
    bad = changed(pair(issuer), issuer, without=[x509.AuthorityKeyIdentifier])
    write(folder, bad, [issuer.certificate])


def leaf_in_bundle(folder: Path) -> None:
    """A trust bundle that holds the cluster's own certificate instead of the authority's."""
    (folder / "ca.crt").write_bytes((folder / "tls.crt").read_bytes())


def expired_root(folder: Path) -> None:
    """A bundle with an authority that is over, beside the right one."""
    old = changed(pair(authority()), authority(), end=soon(-1)).certificate
    bundle = folder / "ca.crt"
    bundle.write_bytes(bundle.read_bytes() + certificates_pem([old]))


def authority_as_certificate(folder: Path) -> None:
    """The authority's certificate in the place of the cluster's."""
    (folder / "tls.crt").write_bytes((folder / "ca.crt").read_bytes())


@pytest.mark.parametrize(
    ("harm", "what"),
    [
        (no_extension, "no authority key identifier extension"),
        (leaf_in_bundle, "is no authority"),
        (expired_root, "is no authority"),
        (authority_as_certificate, "is an authority's certificate"),
        (lambda folder: (folder / "tls.key").write_bytes(key_pem(new_key())), "is not the key"),
        (lambda folder: (folder / "tls.key").unlink(), "cannot read"),
        (lambda folder: (folder / "tls.crt").unlink(), "cannot read"),
        (lambda folder: (folder / "ca.crt").write_bytes(b""), "no certificate"),
    ],
)
def test_a_certificate_that_would_not_do_is_one_line_and_status_2(
    capsys: Capture, file: Path, harm: Callable[[Path], object], what: str
) -> None:
    harm(file.parent)
    done = run(capsys, "config", "check", file)
    assert (done.status, done.out) == (2, "")
    assert what in done.error


def test_a_certificate_that_ends_soon_is_a_warning(capsys: Capture, file: Path) -> None:
    issuer = authority()
    write(file.parent, changed(pair(issuer), issuer, end=soon(10)), [issuer.certificate])
    done = run(capsys, "config", "check", file)
    assert done.status == 0
    assert done.err.startswith("warning: ")
    assert "in 9 hours" in done.err or "in 10 hours" in done.err


def test_a_file_that_is_not_there_is_bad_input(capsys: Capture, tmp_path: Path) -> None:
    done = run(capsys, "config", "check", tmp_path / "agent.yaml")
    assert (done.status, done.out) == (2, "")
    assert "cannot read" in done.error
