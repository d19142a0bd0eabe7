"""``replicator status``: what is said, and how it exits (cases C81, C49, C01)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replicator.ops.address import UnixAddress
from replicator.ops.assessment import assess, exit_status
from tests.replicator.cli.command import Done, run
from tests.support.fake_views import (
    FakeViews,
    ServedViews,
    cluster,
    good_status,
    peer,
    side,
)

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[3]


@pytest.fixture
def served() -> Iterator[ServedViews]:
    with ServedViews(FakeViews()) as agent:
        yield agent


def status(capsys: Capture, served: ServedViews, *more: str) -> Done:
    """Run ``replicator status`` against ``served``."""
    return run(capsys, "status", "--agent", served.address, *more)


# ---- how it exits --------------------------------------------------------------------------------


def test_all_peers_fresh_is_0_and_nothing_on_stderr(capsys: Capture, served: ServedViews) -> None:
    done = status(capsys, served)
    assert (done.status, done.err) == (0, "")


def test_one_peer_stale_is_1_and_named(capsys: Capture, served: ServedViews) -> None:
    stale = cluster("fjord", state="stale", staleness_seconds=61.2)
    served.views.status_document["clusters"][0] = stale
    done = status(capsys, served)
    assert done.status == 1
    assert "cluster fjord: stale, no sign of life for 61 s" in done.error


def test_a_lagging_cluster_and_a_broken_link_with_a_relay_are_shown_but_good(
    capsys: Capture, served: ServedViews
) -> None:
    document = served.views.status_document
    document["clusters"][0] |= {"state": "lagging", "via": "tundra"}
    document["peers"][0] = peer("fjord", state="backoff", digest_equal=None)
    done = status(capsys, served)
    assert (done.status, done.err) == (0, "")
    row = next(line for line in done.out.splitlines() if line.startswith("fjord"))
    assert "lagging" in row
    assert "backoff" in row


@pytest.mark.parametrize("form", ["table", "json", "wide", "yaml"])
def test_links_never_connected_yet_are_1_and_said_so(
    capsys: Capture, served: ServedViews, form: str
) -> None:
    document = served.views.status_document
    document["peers"][1] = peer("tundra", state="never_connected", digest_equal=None)
    document["clusters"][2] = cluster("tundra", state="unknown", head=None)
    done = status(capsys, served, "-o", form)
    assert done.status == 1
    assert "peer tundra: never connected (https://tundra.mesh.example:7443)" in done.error
    assert "tundra" in done.out


def test_no_agent_is_3_with_nothing_on_stdout(capsys: Capture, served: ServedViews) -> None:
    address = served.address
    served.stop()
    for form in ("table", "json"):
        done = run(capsys, "status", "--agent", address, "-o", form)
        assert (done.status, done.out) == (3, "")
        assert "cannot reach an agent" in done.error
        assert "start it" in done.error


def test_our_certificate_refused_by_a_peer_is_4(capsys: Capture, served: ServedViews) -> None:
    error = {
        "code": "certificate_expired",
        "message": "own certificate expired",
        "cure": "renew it",
    }
    refused = peer("fjord", state="refused", last_error=error, digest_equal=None)
    served.views.status_document["peers"][0] = refused
    served.views.status_document["clusters"][2]["state"] = "stale"
    done = status(capsys, served)
    assert done.status == 4
    assert done.err.splitlines()[0] == (
        "replicator: peer fjord: refused: own certificate expired; renew it"
    )


def test_a_socket_that_may_not_be_opened_is_4(capsys: Capture, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may open everything")
    path = tmp_path / "op.sock"
    with ServedViews(FakeViews(), UnixAddress(str(path))):
        path.chmod(0)
        assert run(capsys, "status", "--agent", f"unix:{path}").status == 4


def test_an_unknown_option_is_2_and_shows_the_usage(capsys: Capture) -> None:
    done = run(capsys, "status", "--bogus")
    assert (done.status, done.out) == (2, "")
    assert "Usage" in done.err


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:99999", "unix:"])
def test_an_address_that_is_none_is_2(capsys: Capture, address: str) -> None:
    done = run(capsys, "status", "--agent", address)
    assert (done.status, done.out) == (2, "")
    assert "is not an address" in done.error


def test_the_agent_is_found_by_the_environment_and_over_a_socket_file(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ServedViews(FakeViews(), UnixAddress(str(tmp_path / "op.sock"))) as agent:
        monkeypatch.setenv("REPLICATOR_AGENT", agent.address)
        done = run(capsys, "status", "-o", "json")
    assert done.status == 0
    assert done.document["agent"]["cluster"] == "mesa"


# ---- what counts as not good ---------------------------------------------------------------------


def resource(**changes: Any) -> dict[str, Any]:
    """A side of kubernetes with one resource like this."""
    row = {"name": "endpointslices", "synced": True, "last_event_age_seconds": 1.0, "error": None}
    return side("kubernetes", resources=[row | changes])


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"converged": False}, "digests_differ", "digests differ between connected clusters"),
        (
            {"converged": False, "peers": [peer("fjord", digest_equal=False)]},
            "digests_differ",
            "peer fjord: digests differ",
        ),
        (
            {"peers": [peer("fjord", state="refused", last_error=None)]},
            "refused",
            "peer fjord: refused",
        ),
        (
            {"clusters": [cluster("fjord", state="stale", staleness_seconds=None)]},
            "stale",
            "cluster fjord: stale",
        ),
        ({"clusters": [cluster("x", state="unknown")]}, "nothing_received", "nothing received yet"),
        (
            {"source": resource(last_event_age_seconds=331.0)},
            "watch_silent",
            "source endpointslices: nothing heard for 331 s",
        ),
        (
            {"source": resource(last_event_age_seconds=31.0, deadline_seconds=30)},
            "watch_silent",
            "nothing heard for 31 s",
        ),
        ({"source": resource(synced=False)}, "not_synced", "not listed completely yet"),
        ({"source": resource(error="api_forbidden: no")}, "source_error", "api_forbidden: no"),
        ({"target": resource(error="3 writes refused")}, "target_error", "3 writes refused"),
        (
            {"problems": [{"code": "second_writer", "message": "two agents", "cure": "stop one"}]},
            "second_writer",
            "two agents",
        ),
        ({"agent": {"ready": False, "reasons": ["draining"]}}, "not_ready", "not ready: draining"),
        ({"agent": {"ready": False, "reasons": []}}, "not_ready", "gives no reason"),
    ],
)
def test_each_trouble_is_one_finding(change: dict[str, Any], code: str, said: str) -> None:
    findings = assess(good_status() | change)
    assert [finding.code for finding in findings] == [code]
    assert said in str(findings[0])
    assert exit_status(findings) == (4 if code == "refused" else 1)


@pytest.mark.parametrize(
    "change",
    [
        {"converged": None},
        {"source": side("directory", resources=[{"name": "f", "last_event_age_seconds": 9999.0}])},
        {"source": resource(last_event_age_seconds=329.0)},
        {"clusters": [cluster("mesa", self=True, state="stale")]},
        {"agent": {}, "clusters": None, "peers": None, "source": None, "problems": None},
    ],
)
def test_what_is_no_trouble_is_no_finding(change: dict[str, Any]) -> None:
    assert assess(good_status() | change) == []


# ---- what it shows -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "holder", "said"),
    [
        ("writer", "3f2a", "writer, the lease is held by this agent"),
        ("standby", "77aa", "standby, the lease is held by instance 77aa"),
        ("standby", "", "standby, nobody holds the lease"),
    ],
)
def test_of_agents_that_share_a_cluster_it_tells_who_writes(
    capsys: Capture, served: ServedViews, role: str, holder: str, said: str
) -> None:
    served.views.status_document["agent"] |= {"role": role, "lease_holder": holder}
    assert f"ROLE       {said}" in status(capsys, served).out.splitlines()


def test_the_table_answers_what_somebody_on_call_asks(capsys: Capture, served: ServedViews) -> None:
    lines = status(capsys, served).out.splitlines()
    assert lines[:7] == [
        "CLUSTER    mesa of prod in us-east-1",
        "AGENT      0.1.0, instance 3f2a, epoch 1, since 2025-12-02T05:00:00.000Z",
        "READY      yes",
        "CONVERGED  yes (digest cdcdcdcdcdcdcdcd)",
        "PEERS      2 of 2 connected",
        "SOURCE     kubernetes, synced, heard 3.5 s ago",
        "TARGET     endpointslices, synced, heard 3.5 s ago",
    ]
    titles, fjord, mesa = lines[8:11]
    assert titles.split() == [
        *("CLUSTER", "STATE", "BEHIND", "ELEMENTS", "SERVICES", "P50", "P99", "VIA", "LINK"),
        *("RTT", "DIGEST"),
    ]
    assert fjord.split() == [
        *("fjord", "fresh", "200", "ms", "1200", "40", "82", "ms", "104", "ms", "fjord"),
        *("connected", "81", "ms", "equal"),
    ]
    assert mesa.split()[:2] == ["mesa", "self"]


def test_the_table_says_what_is_not_good(capsys: Capture, served: ServedViews) -> None:
    served.views.status_document |= {"converged": False, "target": side("none", synced=False)}
    served.views.status_document["agent"] |= {"ready": False, "reasons": ["draining"]}
    served.views.status_document["target"]["resources"] = []
    served.views.status_document["peers"].append(peer("new", state="never_connected"))
    done = status(capsys, served)
    assert "READY      no: draining" in done.out
    assert "CONVERGED  no, digests differ" in done.out
    assert "TARGET     none, not synced" in done.out
    assert "never connected" in next(row for row in done.out.splitlines() if row[:3] == "new")


def test_before_the_first_comparison_nothing_is_claimed(
    capsys: Capture, served: ServedViews
) -> None:
    served.views.status_document |= {"converged": None, "digest": ""}
    served.views.status_document["agent"]["region"] = None
    lines = status(capsys, served).out.splitlines()
    assert lines[0] == "CLUSTER    mesa of prod"
    assert "CONVERGED  not known yet" in lines


def test_wide_shows_more_columns(capsys: Capture, served: ServedViews) -> None:
    out = status(capsys, served, "-o", "wide").out
    for word in ("REGION", "TOMBSTONES", "MAX", "HEAD AGE", "fjord:1764655200000000000"):
        assert word in out


def test_json_is_the_agents_document_with_sorted_keys(capsys: Capture, served: ServedViews) -> None:
    done = status(capsys, served, "-o", "json")
    assert done.document == served.views.status_document
    assert done.out == json.dumps(done.document, indent=2, sort_keys=True) + "\n"


def test_text_from_elsewhere_cannot_drive_the_terminal(
    capsys: Capture, served: ServedViews
) -> None:
    error = {"code": "x", "message": "\x1b[2Jevil\u202e\n", "cure": "c"}
    served.views.status_document["clusters"][0]["region"] = "\x1b]0;title\x07"
    served.views.status_document["peers"][0] |= {"state": "refused", "last_error": error}
    done = status(capsys, served, "-o", "wide")
    assert "\x1b" not in done.out + done.err
    assert "\u202e" not in done.err
    assert "\\x1b[2Jevil" in done.error


# ---- again and again -----------------------------------------------------------------------------


def test_watching_in_json_is_one_line_a_look_and_exits_as_the_last(
    capsys: Capture, served: ServedViews
) -> None:
    served.views.status_document["converged"] = False
    more = ("--watch", "--count", "3", "--interval", "0.01", "-o", "json")
    done = status(capsys, served, *more)
    assert done.status == 1
    assert [json.loads(line)["converged"] for line in done.out.splitlines()] == [False] * 3
    assert done.err.count("digests differ") == 3


def test_watching_as_a_table_repeats_it(capsys: Capture, served: ServedViews) -> None:
    done = status(capsys, served, "--watch", "--count", "2", "--interval", "0.01")
    assert done.status == 0
    assert done.out.count("CONVERGED") == 2
    assert "\x1b" not in done.out


def start(*arguments: str) -> subprocess.Popen[bytes]:
    """The command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "replicator", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_ctrl_c_is_130_without_a_traceback(served: ServedViews) -> None:
    with start("status", "--agent", served.address, "--watch", "-o", "json") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"Traceback" not in err


def test_a_reader_that_closes_early_leaves_no_traceback(served: ServedViews) -> None:
    served.views.status_document["clusters"] = [cluster(f"c{n}") for n in range(3000)]
    with start("status", "--agent", served.address) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
        process.wait(timeout=20)
    assert process.returncode in {0, 141}
    assert b"Traceback" not in err
    assert b"BrokenPipe" not in err
