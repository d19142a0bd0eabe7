"""``replicator release``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clusters.model import ServiceKey
from tests.replicator.cli.command import run
from tests.support.fake_views import FakeViews, ServedViews

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def served() -> Iterator[ServedViews]:
    with ServedViews(FakeViews()) as agent:
        yield agent


def test_people_are_told_what_goes(capsys: Capture, served: ServedViews) -> None:
    done = run(capsys, "release", "--agent", served.address)
    assert done.out == "shop/cart of mesa: 6 of 8 addresses go\n"
    done = run(capsys, "release", "tundra", "--agent", served.address)
    assert (done.status, done.out) == (0, "nothing is held back\n")
    assert served.views.releases == [(None, None), ("tundra", None)]


def test_one_document_in_json(capsys: Capture, served: ServedViews) -> None:
    chosen = ("fjord", "--service", "shop/mail", "-o", "json")
    done = run(capsys, "release", *chosen, "--agent", served.address)
    row = {"service": "shop/mail", "cluster": "fjord", "removed": 6, "written": 8}
    assert done.document == {"released": [row]}
    assert served.views.releases == [("fjord", ServiceKey("shop", "mail"))]


@pytest.mark.parametrize("wrong", [("No_Cluster",), ("--service", "cart")])
def test_what_is_no_name_is_refused(
    capsys: Capture, served: ServedViews, wrong: tuple[str, ...]
) -> None:
    done = run(capsys, "release", *wrong, "--agent", served.address)
    assert (done.status, done.out) == (2, "")
    assert served.views.releases == []
