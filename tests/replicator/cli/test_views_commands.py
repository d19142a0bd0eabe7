"""``replicator peers``, ``clusters``, ``services`` and ``endpoints``."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.replicator.cli.command import Done, run
from tests.support.fake_views import FakeViews, ServedViews, change, cluster, item, peer

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def served() -> Iterator[ServedViews]:
    with ServedViews(FakeViews()) as agent:
        yield agent


def ask(capsys: Capture, served: ServedViews, *arguments: str) -> Done:
    """Run a command against ``served``."""
    return run(capsys, *arguments, "--agent", served.address)


@pytest.mark.parametrize("command", ["peers", "clusters", "services", "endpoints"])
def test_nothing_is_an_empty_list_in_json(
    capsys: Capture, served: ServedViews, command: str
) -> None:
    served.views.status_document |= {"peers": [], "clusters": []}
    done = ask(capsys, served, command, "-o", "json")
    assert (done.status, done.err) == (0, "")
    assert done.out == '{\n  "items": []\n}\n'
    assert ask(capsys, served, command, "-o", "yaml").out == "items: []\n"


@pytest.mark.parametrize("command", ["peers", "clusters", "services", "endpoints"])
def test_no_agent_is_3_with_nothing_on_stdout(
    capsys: Capture, served: ServedViews, command: str
) -> None:
    served.stop()
    done = ask(capsys, served, command, "-o", "json")
    assert (done.status, done.out) == (3, "")


def test_peers_show_link_and_error(capsys: Capture, served: ServedViews) -> None:
    error = {"code": "unreachable", "message": "connection refused", "cure": ""}
    served.views.status_document["peers"] = [
        peer("fjord"),
        peer("tundra", state="never_connected", last_error=error, digest_equal=None, rtt_ms=None),
        peer("old", digest_equal=False),
    ]
    lines = ask(capsys, served, "peers").out.splitlines()
    assert lines[0].split() == [
        *("PEER", "STATE", "FOR", "RTT", "LAST", "BEAT", "DIGEST", "CLOCK", "ERROR")
    ]
    assert lines[1].split() == [
        *("fjord", "connected", "1", "h", "2", "m", "81", "ms", "400", "ms", "equal", "-0.3", "ms"),
        "-",
    ]
    assert "never connected" in lines[2]
    assert lines[2].endswith("connection refused")
    assert "differs" in lines[3]
    wide = ask(capsys, served, "peers", "-o", "wide").out
    assert "10.0 KiB" in wide
    assert "300 B" in wide
    assert "https://fjord.mesh.example:7443" in wide


def test_clusters_show_how_far_behind_each_is(capsys: Capture, served: ServedViews) -> None:
    served.views.status_document["clusters"] = [
        cluster("fjord"),
        cluster("mesa", self=True),
        cluster("tundra", head=None, convergence_ms=None, staleness_seconds=None, state="unknown"),
    ]
    lines = ask(capsys, served, "clusters").out.splitlines()
    assert lines[1].split()[:4] == ["fjord", "fresh", "200", "ms"]
    assert lines[2].split()[:2] == ["mesa", "self"]
    assert lines[3].split()[:3] == ["tundra", "unknown", "-"]
    assert "abababababab" in ask(capsys, served, "clusters", "-o", "wide").out


def test_services_are_one_row_per_cluster(capsys: Capture, served: ServedViews) -> None:
    served.views.service_rows = [
        {
            "namespace": "shop",
            "service": "cart",
            "clusters": [
                {"cluster": "fjord", "exported": True, "endpoints": 3, "ready": 2},
                {"cluster": "mesa", "exported": False, "endpoints": 0, "ready": 0},
            ],
        }
    ]
    lines = ask(capsys, served, "services").out.splitlines()
    assert [line.split() for line in lines] == [
        ["NAMESPACE", "SERVICE", "CLUSTER", "EXPORTED", "READY", "ENDPOINTS"],
        ["shop", "cart", "fjord", "yes", "2", "3"],
        ["shop", "cart", "mesa", "no", "0", "0"],
    ]
    document = ask(capsys, served, "services", "-o", "json").document
    assert document == {"items": served.views.service_rows}


def test_endpoints_in_json_have_exactly_the_fields_of_item(
    capsys: Capture, served: ServedViews
) -> None:
    served.views.items = [item()]
    document = ask(capsys, served, "endpoints", "-o", "json").document
    assert document == {"items": [item()]}
    assert set(document["items"][0]) == {
        *("kind", "tag", "namespace", "service", "address", "ports", "ready", "serving"),
        *("terminating", "hostname", "zone", "node", "pod"),
    }


def test_endpoints_of_one_service_and_cluster(capsys: Capture, served: ServedViews) -> None:
    served.views.items = [item(), item("10.9.9.9", service="pay"), item("10.4.0.1", tag="mesa:7")]
    done = ask(capsys, served, "endpoints", "shop/cart", "--cluster", "mesa", "-o", "json")
    assert [row["address"] for row in done.document["items"]] == ["10.4.0.1"]


def test_endpoints_as_a_table(capsys: Capture, served: ServedViews) -> None:
    served.views.items = [
        item(),
        item("10.20.1.5", ports=None, ready=False, terminating=True, tag="mesa:7"),
        item(
            "10.20.1.6",
            ready=False,
            serving=False,
            ports=[{"name": "", "port": None, "protocol": "UDP", "app_protocol": None}],
        ),
    ]
    lines = ask(capsys, served, "endpoints").out.splitlines()
    assert lines[1].split() == ["shop", "cart", "fjord", "10.20.1.4", "http:8080/TCP", "ready"]
    assert lines[2].endswith("not ready, serving, terminating")
    assert " mesa " in lines[2]
    assert " * " in lines[2]
    assert " -/UDP " in lines[3]
    assert "cart-7d9f" in ask(capsys, served, "endpoints", "-o", "wide").out


def test_a_service_nobody_offers_is_empty_and_said_on_stderr(
    capsys: Capture, served: ServedViews
) -> None:
    done = ask(capsys, served, "endpoints", "shop/nothing", "-o", "json")
    assert (done.status, done.document) == (0, {"items": []})
    assert "no endpoint of shop/nothing is known here" in done.error


@pytest.mark.parametrize("name", ["cart", "shop/", "/cart", "shop/cart/x", "Shop/cart", "a/b c"])
def test_what_is_no_service_name_is_2(capsys: Capture, served: ServedViews, name: str) -> None:
    done = ask(capsys, served, "endpoints", name)
    assert (done.status, done.out) == (2, "")
    assert "is not NAMESPACE/SERVICE" in done.error
    assert run(capsys, "endpoints", "--cluster", "A B").status == 2


def test_watching_endpoints_shows_their_changes(capsys: Capture, served: ServedViews) -> None:
    served.publish_when_watched(
        change(service="pay"), change(address="10.20.1.9"), change("remove")
    )
    more = ("--watch", "--count", "2", "-o", "json")
    done = ask(capsys, served, "endpoints", "shop/cart", *more)
    assert done.status == 0
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert lines == [change(address="10.20.1.9"), change("remove")]


def test_watching_rows_repeats_them(capsys: Capture, served: ServedViews) -> None:
    more = ("--watch", "--count", "2", "--interval", "0.01")
    assert ask(capsys, served, "peers", *more).out.count("PEER") == 2
    lines = ask(capsys, served, "clusters", *more, "-o", "json").out.splitlines()
    assert [len(json.loads(line)["items"]) for line in lines] == [3, 3]
