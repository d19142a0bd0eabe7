"""``replicator forget`` and ``replicator admit``."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

import pytest

from replicator.errors import InputError, JournalError, NotGood
from tests.replicator.cli.command import Done, run
from tests.support.fake_views import FakeViews, ServedViews

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def served() -> Iterator[ServedViews]:
    with ServedViews(FakeViews()) as agent:
        yield agent


def ask(capsys: Capture, served: ServedViews, *arguments: str) -> Done:
    """Run a command against ``served``."""
    return run(capsys, *arguments, "--agent", served.address)


@pytest.mark.parametrize("decision", ["forget", "admit"])
def test_a_decision_is_one_document_in_json(
    capsys: Capture, served: ServedViews, decision: str
) -> None:
    done = ask(capsys, served, decision, "mesa", "-o", "json")
    assert (done.status, done.err) == (0, "")
    told = {"cluster": "mesa", "decision": decision, "elements": 2, "services": 1}
    assert done.document == told
    assert served.views.decisions == [(decision, "mesa")]


def test_people_are_told_in_a_line(capsys: Capture, served: ServedViews) -> None:
    done = ask(capsys, served, "forget", "mesa", "--yes")
    assert done.out == "mesa is forgotten: 2 elements of 1 services removed here\n"
    done = ask(capsys, served, "admit", "mesa")
    told = "if it was forgotten, it is taken again once it has opened a new epoch"
    assert done.out == f"mesa is admitted; {told}\n"


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (NotGood("mesa is alive", cure="stop it first", code="cluster_alive"), 1),
        (InputError("no cluster mesa", cure="look", code="unknown_cluster"), 2),
        (JournalError("disk full", cure="free some space"), 3),
    ],
)
def test_c50_what_may_not_be_is_said_in_a_line(
    capsys: Capture, served: ServedViews, failure: NotGood, status: int
) -> None:
    served.views.failure = failure
    done = ask(capsys, served, "forget", "mesa", "-o", "json")
    assert (done.status, done.out) == (status, "")
    assert done.error.endswith(f"{failure.message}; {failure.cure}")


def test_no_agent_is_3(capsys: Capture, served: ServedViews) -> None:
    served.stop()
    assert ask(capsys, served, "admit", "mesa").status == 3


def test_no_name_of_a_cluster_is_2_and_nobody_is_asked(
    capsys: Capture, served: ServedViews
) -> None:
    for command in ("forget", "admit"):
        done = ask(capsys, served, command, "Not a label")
        assert (done.status, done.out) == (2, "")
        assert "not a cluster id" in done.error
    assert served.views.decisions == []


class Terminal(io.StringIO):
    """Somebody who answers."""

    def isatty(self) -> bool:
        """Yes."""
        return True


@pytest.mark.parametrize(("answer", "decided"), [("y\n", True), ("n\n", False), ("", False)])
def test_on_a_terminal_forgetting_is_asked_about(
    capsys: Capture,
    served: ServedViews,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    decided: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    done = ask(capsys, served, "forget", "mesa")
    assert "Forget mesa everywhere?" in done.err
    assert (done.status == 0) is decided
    assert bool(served.views.decisions) is decided
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert ask(capsys, served, "forget", "mesa", "--yes").status == 0
