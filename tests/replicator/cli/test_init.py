"""``init``: a clusterset that runs without editing, and that a second run only adds to."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from replicator.config import Config, HostPort, Peer, load_config
from replicator.identity import PeerIdentity
from replicator.pki import check
from tests.replicator.cli.command import Done, run
from tests.support.certificates import handshake

FILES = {"agent.yaml", "ca.crt", "tls.crt", "tls.key"}
Capture = pytest.CaptureFixture[str]


def init(capsys: Capture, folder: Path, *members: str, clusterset: str = "prod") -> Done:
    """Run ``init`` for the given members."""
    options = [f"--cluster={member}" for member in members]
    return run(capsys, "init", folder, "--clusterset", clusterset, *options)


def config_of(folder: Path, cluster: str) -> Config:
    """The configuration that was written for a cluster."""
    return load_config(folder / cluster / "agent.yaml", {})


def content(folder: Path) -> dict[str, bytes]:
    """Every file below ``folder``."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that is not there yet, with a space in its name."""
    return tmp_path / "my mesh"


def test_each_cluster_gets_the_four_files_and_the_authority_its_own(
    capsys: Capture, folder: Path
) -> None:
    done = init(capsys, folder, "fjord=fjord.example:7443", "mesa=mesa.example:7443")
    assert (done.status, done.err) == (0, "")
    assert {path.name for path in folder.iterdir()} == {"ca", "fjord", "mesa"}
    for cluster in ("fjord", "mesa"):
        inner = folder / cluster
        assert {path.name for path in inner.iterdir() if path.is_file()} == FILES
        assert {path.name for path in inner.iterdir() if path.is_dir()} == {"source", "target"}
        assert (inner / "ca.crt").read_bytes() == (folder / "ca" / "ca.crt").read_bytes()
        assert stat.S_IMODE((inner / "tls.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "ca" / "ca.key").stat().st_mode) == 0o600


def test_the_configurations_name_each_other_and_run_without_editing(
    capsys: Capture, folder: Path
) -> None:
    init(capsys, folder, "fjord=fjord.example:7443", "mesa=10.0.0.2:7000", "dune=[fd00::3]:7443")
    fjord = config_of(folder, "fjord")
    assert (fjord.clusterset, fjord.cluster, fjord.region) == ("prod", "fjord", "fjord")
    assert fjord.peers == (
        Peer("dune", "https://[fd00::3]:7443"),
        Peer("mesa", "https://10.0.0.2:7000"),
    )
    assert fjord.listen == HostPort("0.0.0.0", 7443)
    assert config_of(folder, "dune").listen == HostPort("::", 7443)
    assert fjord.operator == "127.0.0.1:7480"
    assert fjord.health == HostPort("0.0.0.0", 7481)
    inner = folder / "fjord"
    assert fjord.source.kind == fjord.target.mode == "directory"
    assert (fjord.source.path, fjord.target.path) == (inner / "source", inner / "target")
    assert fjord.source.export == "all"
    assert fjord.state == inner / "state"


def test_the_certificates_are_good_and_shake_hands(capsys: Capture, folder: Path) -> None:
    init(capsys, folder, "fjord=fjord.example:7443", "mesa=[::1]:7443")
    for cluster in ("fjord", "mesa"):
        tls = config_of(folder, cluster).tls
        report = check(tls.certificate, datetime.now(UTC), key=tls.key, bundle=tls.trust_bundle)
        assert report.good
        assert report.identity == PeerIdentity("prod", cluster)
    assert handshake(folder / "fjord", folder / "mesa") is None


def test_clusters_on_one_machine_share_no_port(capsys: Capture, folder: Path) -> None:
    hosts = ["127.0.0.1:7482", "localhost:7443", "[::1]:7444", "127.0.0.9:7485", "127.0.0.1:7445"]
    names = ["a", "b", "c", "d", "e"]
    init(capsys, folder, *(f"{name}={host}" for name, host in zip(names, hosts, strict=True)))
    ports: list[int] = []
    for name in names:
        config = config_of(folder, name)
        assert config.health is not None
        assert config.health.host == "127.0.0.1"
        ports += [config.listen.port, config.health.port, int(config.operator.rpartition(":")[2])]
    assert len(set(ports)) == len(ports)
    assert config_of(folder, "a").operator == "127.0.0.1:7480"


def test_clusters_on_different_machines_have_the_same_ports(capsys: Capture, folder: Path) -> None:
    init(capsys, folder, "a=one:7443", "b=two:7443", "c=two:7480")
    operators = [config_of(folder, name).operator for name in ("a", "b", "c")]
    assert operators == ["127.0.0.1:7480", "127.0.0.1:7482", "127.0.0.1:7484"]


def test_names_that_yaml_might_take_for_something_else_stay_texts(
    capsys: Capture, folder: Path
) -> None:
    init(capsys, folder, "no=n:1", "1=one:1", "0x1f=x:1", "null=nil:1", clusterset="on")
    for name in ("no", "1", "0x1f", "null"):
        text = (folder / name / "agent.yaml").read_text(encoding="utf-8")
        assert yaml.safe_load(text)["cluster"] == name
        assert config_of(folder, name).clusterset == "on"


def test_the_output_says_how_to_start_and_ask_each_agent(capsys: Capture, folder: Path) -> None:
    done = init(capsys, folder, "fjord=127.0.0.1:7443", "mesa=127.0.0.1:7444")
    assert f"replicator agent --config '{folder / 'fjord' / 'agent.yaml'}'" in done.out
    assert "replicator status --agent 127.0.0.1:7482" in done.out


def test_a_second_run_changes_nothing(capsys: Capture, folder: Path) -> None:
    members = ["fjord=127.0.0.1:7443", "mesa=127.0.0.1:7444"]
    init(capsys, folder, *members)
    before = content(folder)
    done = init(capsys, folder, *members)
    assert done.status == 0
    assert content(folder) == before
    assert "kept" in done.out
    assert "add to peers" not in done.out


def test_a_second_run_adds_a_cluster_and_says_what_the_others_lack(
    capsys: Capture, folder: Path
) -> None:
    init(capsys, folder, "fjord=127.0.0.1:7443", "mesa=127.0.0.1:7444")
    before = content(folder)
    done = init(capsys, folder, "reef=127.0.0.1:7445")
    after = content(folder)
    kept = {name for name in before if not name.startswith("ca/clusters")}
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert {peer.cluster for peer in config_of(folder, "reef").peers} == {"fjord", "mesa"}
    assert handshake(folder / "reef", folder / "mesa") is None
    line = '  - {cluster: "reef", url: "https://127.0.0.1:7445"}\n'
    for name in ("fjord", "mesa"):
        assert (
            f"add to peers in the agent.yaml of {name} and restart its agent:\n{line}" in done.out
        )
    ports = {config_of(folder, name).operator for name in ("fjord", "mesa", "reef")}
    assert len(ports) == 3


def test_the_lines_that_are_said_to_be_lacking_are_right(capsys: Capture, folder: Path) -> None:
    init(capsys, folder, "fjord=127.0.0.1:7443")
    done = init(capsys, folder, "reef=127.0.0.1:7445")
    line = next(line for line in done.out.splitlines() if line.startswith("  - "))
    path = folder / "fjord" / "agent.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("peers: []\n", f"peers:\n{line}\n"), encoding="utf-8")
    assert config_of(folder, "fjord").peers == (Peer("reef", "https://127.0.0.1:7445"),)
    again = init(capsys, folder, "fjord=127.0.0.1:7443")
    assert "add to peers" not in again.out


def test_what_is_lacking_is_said_again_until_it_is_added(capsys: Capture, folder: Path) -> None:
    init(capsys, folder, "fjord=127.0.0.1:7443")
    init(capsys, folder, "reef=127.0.0.1:7445")
    done = init(capsys, folder, "fjord=127.0.0.1:7443")
    assert "add to peers in the agent.yaml of fjord" in done.out


def test_a_cluster_that_was_moved_to_its_machine_is_still_told_about_a_new_one(
    capsys: Capture, folder: Path, tmp_path: Path
) -> None:
    init(capsys, folder, "fjord=fjord:7443", "mesa=mesa:7443")
    (folder / "fjord").rename(tmp_path / "away")
    done = init(capsys, folder, "reef=reef:7443")
    assert "agent.yaml of fjord" in done.out
    assert {peer.cluster for peer in config_of(folder, "reef").peers} == {"fjord", "mesa"}
    assert not (folder / "fjord").exists()


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_cluster_of_which_a_file_is_missing_is_not_touched(
    capsys: Capture, folder: Path, name: str
) -> None:
    init(capsys, folder, "fjord=fjord:7443")
    (folder / "fjord" / name).unlink()
    before = content(folder)
    done = init(capsys, folder, "fjord=fjord:7443", "mesa=mesa:7443")
    assert done.status == 2
    assert f"lacks {name}" in done.error
    assert content(folder) == before


@pytest.mark.parametrize("names", [["ca.key"], ["ca.crt"], ["ca.key", "ca.crt"]])
def test_without_its_authority_nothing_is_added(
    capsys: Capture, folder: Path, names: list[str]
) -> None:
    init(capsys, folder, "fjord=fjord:7443")
    for name in names:
        (folder / "ca" / name).unlink()
    before = content(folder)
    done = init(capsys, folder, "mesa=mesa:7443")
    assert done.status == 2
    assert "restore" in done.error or "name a readable PEM file" in done.error
    assert content(folder) == before


def test_an_authority_made_before_is_used(capsys: Capture, folder: Path) -> None:
    run(capsys, "pki", "init", folder / "ca", "--clusterset", "prod")
    before = (folder / "ca" / "ca.crt").read_bytes()
    assert init(capsys, folder, "fjord=fjord:7443").status == 0
    assert (folder / "fjord" / "ca.crt").read_bytes() == before


def test_another_clusterset_needs_another_folder(capsys: Capture, folder: Path) -> None:
    init(capsys, folder, "fjord=fjord:7443")
    done = init(capsys, folder, "mesa=mesa:7443", clusterset="dev")
    assert done.status == 2
    assert "prod" in done.error
    assert not (folder / "mesa").exists()


@pytest.mark.parametrize(
    ("members", "what"),
    [
        (["fjord"], "names no address"),
        (["=a:1"], "not a DNS label"),
        (["Fjord=a:1"], "not a DNS label"),
        (["../x=a:1"], "not a DNS label"),
        (["ca=a:1"], "the authority's folder"),
        ([f"{'a' * 64}=a:1"], "not a DNS label"),
        (["fjord=a"], "no host and port"),
        (["fjord=:1"], "no host and port"),
        (["fjord=a:0"], "port from 1 to"),
        (["fjord=a:65536"], "port"),
        (["fjord=a:x"], "port"),
        (["fjord=::1:7443"], "brackets"),
        (["fjord=unix:/x"], "port from 1 to"),
        (["fjord=a_b:1"], "no host"),
        (["fjord=1.2.3:1"], "no host"),
        (["fjord=[fe80::1%eth0]:1"], "zone"),
        (["fjord=a:1", "fjord=b:1"], "given twice"),
        (["fjord=a:1", "mesa=a:1"], "the same address"),
    ],
)
def test_bad_members_are_refused_before_anything_is_written(
    capsys: Capture, folder: Path, members: list[str], what: str
) -> None:
    done = init(capsys, folder, "good=good:1", *members)
    assert done.status == 2
    assert what in done.error
    assert not folder.exists()


@pytest.mark.parametrize("name", ["", "Prod", "a.b", "a" * 64])
def test_a_bad_clusterset_is_refused(capsys: Capture, folder: Path, name: str) -> None:
    done = init(capsys, folder, "fjord=a:1", clusterset=name)
    assert done.status == 2
    assert "not a DNS label" in done.error
    assert not folder.exists()


@pytest.mark.parametrize(
    ("member", "what"),
    [("fjord=other:7443", "was made for fjord:7443"), ("mesa=fjord:7443", "the same address")],
)
def test_a_second_run_must_agree_with_the_first(
    capsys: Capture, folder: Path, member: str, what: str
) -> None:
    init(capsys, folder, "fjord=fjord:7443")
    before = content(folder)
    done = init(capsys, folder, member)
    assert done.status == 2
    assert what in done.error
    assert content(folder) == before


@pytest.mark.parametrize(
    "text",
    [
        "- a\n",
        "a: b\n",
        "{",
        "fjord: {}\n",
        "fjord: {address: 'x', operator_port: 1, health_port: 2}\n",
        "fjord: {address: 'x:1', operator_port: a, health_port: 2}\n",
        "fjord: {address: 'x:1', operator_port: 1, health_port: null}\n",
    ],
)
def test_a_damaged_list_of_clusters_is_one_error(capsys: Capture, folder: Path, text: str) -> None:
    init(capsys, folder, "fjord=fjord:7443")
    (folder / "ca" / "clusters.yaml").write_text(text, encoding="utf-8")
    done = init(capsys, folder, "mesa=mesa:7443")
    assert done.status == 2
    assert "clusters.yaml" in done.error


def test_a_folder_that_cannot_be_made_is_one_error(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = init(capsys, tmp_path / "file" / "mesh", "fjord=fjord:7443")
    assert done.status == 2
    assert "cannot make the folder" in done.error


def test_a_list_that_cannot_be_written_is_one_error(capsys: Capture, folder: Path) -> None:
    run(capsys, "pki", "init", folder / "ca", "--clusterset", "prod")
    (folder / "ca" / "clusters.new").mkdir()
    done = init(capsys, folder, "fjord=fjord:7443")
    assert done.status == 2
    assert "cannot write" in done.error
