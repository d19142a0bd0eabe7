"""``replicator watch``: live changes, and no quiet end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.replicator.cli.command import Done, run
from tests.support.fake_views import FakeViews, ServedViews, change

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[3]


@pytest.fixture
def served() -> Iterator[ServedViews]:
    with ServedViews(FakeViews()) as agent:
        yield agent


def watch(capsys: Capture, served: ServedViews, *more: str) -> Done:
    """Run ``replicator watch`` against ``served``."""
    return run(capsys, "watch", "--agent", served.address, *more)


def test_json_is_one_change_a_line_with_the_fixed_fields(
    capsys: Capture, served: ServedViews
) -> None:
    changes = [change(), change("remove", origin="tundra")]
    served.publish_when_watched(*changes)
    done = watch(capsys, served, "-o", "json", "--count", "2")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert [json.loads(line) for line in lines] == changes
    assert lines[0] == json.dumps(changes[0], sort_keys=True)
    assert set(json.loads(lines[0])) == {
        *("op", "item", "origin", "committed_at", "convergence_ms")
    }


def test_yaml_is_one_document_a_change(capsys: Capture, served: ServedViews) -> None:
    served.publish_when_watched(change(), change("remove"))
    done = watch(capsys, served, "-o", "yaml", "--count", "2")
    assert list(yaml.safe_load_all(done.out)) == [change(), change("remove")]


def test_a_line_for_people_says_what_happened_and_how_late(
    capsys: Capture, served: ServedViews
) -> None:
    late = change("remove") | {"committed_at": "1764655200120000000", "convergence_ms": None}
    served.publish_when_watched(change(), late)
    lines = watch(capsys, served, "--count", "2").out.splitlines()
    assert lines == [
        "2025-12-02T06:00:00.120Z  +  fjord  shop/cart  10.20.1.4  http:8080/TCP  ready  81 ms",
        "2025-12-02T06:00:00.120Z  -  fjord  shop/cart  10.20.1.4  http:8080/TCP  gone  -",
    ]


def test_wide_lines_add_zone_and_tag(capsys: Capture, served: ServedViews) -> None:
    served.publish_when_watched(change())
    line = watch(capsys, served, "-o", "wide", "--count", "1").out
    assert line.endswith("  fjord-a  fjord:1764655200000000000\n")


def test_only_one_service_of_one_cluster(capsys: Capture, served: ServedViews) -> None:
    wanted = change(origin="tundra", address="10.1.1.1")
    served.publish_when_watched(change(), change(origin="tundra", service="pay"), wanted)
    done = watch(capsys, served, "shop/cart", "--cluster", "tundra", "-o", "json", "--count", "1")
    assert json.loads(done.out) == wanted


def test_an_agent_that_ends_is_3_not_a_quiet_end(capsys: Capture, served: ServedViews) -> None:
    served.when_watched(served.views.broadcast.close)
    done = watch(capsys, served, "-o", "json")
    assert (done.status, done.out) == (3, "")
    assert "ended the stream" in done.error


def test_a_reader_too_slow_is_1_and_told(capsys: Capture, served: ServedViews) -> None:
    served.publish_when_watched(*(change() for _ in range(200)))
    done = watch(capsys, served, "-o", "json")
    assert done.status == 1
    assert "changes behind" in done.error


def test_no_agent_is_3(capsys: Capture, served: ServedViews) -> None:
    served.stop()
    done = watch(capsys, served)
    assert (done.status, done.out) == (3, "")


def test_ctrl_c_is_130_after_what_was_shown(served: ServedViews) -> None:
    command = [sys.executable, "-m", "replicator", "watch", "--agent", served.address, "-o", "json"]
    served.publish_when_watched(change())
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == change()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert (out, b"Traceback" in err) == (b"", False)
