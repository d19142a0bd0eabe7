"""``replicator drain``, ``undrain``, ``weight``, ``stale`` and ``policies``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replicator.errors import InputError, JournalError, NotGood
from replicator.policies import Setting, Subject
from tests.replicator.cli.command import Done, run
from tests.support.fake_views import FakeViews, ServedViews

Capture = pytest.CaptureFixture[str]
CART = ("shop", "cart")


@pytest.fixture
def served() -> Iterator[ServedViews]:
    with ServedViews(FakeViews()) as agent:
        yield agent


def ask(capsys: Capture, served: ServedViews, *arguments: str) -> Done:
    """Run a command against ``served``."""
    return run(capsys, *arguments, "--agent", served.address)


@pytest.mark.parametrize(
    ("command", "subject", "setting"),
    [
        (("drain", "mesa"), Subject("drain", "mesa"), "drained"),
        (("drain", "mesa", "--last"), Subject("drain", "mesa"), "drained-last"),
        (("undrain", "mesa"), Subject("drain", "mesa"), "undrained"),
        (("drain", "mesa", "--service", "shop/cart"), Subject("drain", "mesa", *CART), "drained"),
        (("weight", "mesa", "30"), Subject("weight", "mesa"), 30),
        (("stale", "withdraw"), Subject("stale"), "withdraw"),
        (("stale", "keep", "--service", "shop/cart"), Subject("stale", "", *CART), "keep"),
    ],
)
def test_a_decision_is_passed_on_and_is_one_document(
    capsys: Capture,
    served: ServedViews,
    command: tuple[str, ...],
    subject: Subject,
    setting: Setting,
) -> None:
    done = ask(capsys, served, *command, "-o", "json")
    assert (done.status, done.err) == (0, "")
    assert done.document["setting"] == setting
    assert done.document["policy"] == subject.what
    assert served.views.steered == [(subject, setting)]


def test_people_are_told_in_a_line_and_of_what_is_kept(
    capsys: Capture, served: ServedViews
) -> None:
    done = ask(capsys, served, "drain", "mesa")
    assert done.out == "mesa is drained: 2 services known here\n"
    assert "1 services keep their last ready endpoints there" in done.err
    done = ask(capsys, served, "weight", "mesa", "30", "--service", "shop/cart")
    assert done.out == "mesa has a weight of 30 %: shop/cart\n"


@pytest.mark.parametrize(
    "command",
    [
        ("drain", "Not a label"),
        ("drain", "mesa", "--service", "shop"),
        ("weight", "mesa", "101"),
        ("weight", "mesa", "much"),
        ("stale", "panic"),
    ],
)
def test_what_makes_no_sense_is_2_and_nobody_is_asked(
    capsys: Capture, served: ServedViews, command: tuple[str, ...]
) -> None:
    done = ask(capsys, served, *command)
    assert (done.status, done.out) == (2, "")
    assert served.views.steered == []


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (NotGood("mesa is forgotten", cure="admit it", code="cluster_forgotten"), 1),
        (InputError("no cluster mesa", cure="look", code="unknown_cluster"), 2),
        (JournalError("disk full", cure="free some space"), 3),
    ],
)
def test_what_may_not_be_is_said_in_a_line(
    capsys: Capture, served: ServedViews, failure: NotGood, status: int
) -> None:
    served.views.failure = failure
    done = ask(capsys, served, "drain", "mesa", "-o", "json")
    assert (done.status, done.out) == (status, "")
    assert done.error.endswith(f"{failure.message}; {failure.cure}")


def test_what_was_decided_is_listed(capsys: Capture, served: ServedViews) -> None:
    assert ask(capsys, served, "policies", "-o", "json").document == {"items": []}
    row = {"policy": "drain", "cluster": "mesa", "service": None, "setting": "drained"}
    served.views.policy_rows = [row | {"by": "fjord", "order": 3}]
    assert ask(capsys, served, "policies", "-o", "json").document == {
        "items": served.views.policy_rows
    }
    lines = ask(capsys, served, "policies").out.splitlines()
    assert lines[0].split() == ["POLICY", "CLUSTER", "SERVICE", "SETTING", "BY"]
    assert lines[1].split() == ["drain", "mesa", "all", "drained", "fjord"]
