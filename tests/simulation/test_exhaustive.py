"""Small scopes, searched to their end: every order of the few things that can happen."""

from __future__ import annotations

import pytest

from replicator.simulation.exhaustive import explore, main, replay, shortened
from replicator.simulation.monitor import Violation
from replicator.simulation.scope import Action, Explorer, Scope, State

SMALL = {
    "pair": Scope("pair", 2, changes=1, losses=1, crashes=0, floors=0, ticks=0),
    "floor": Scope("pair", 2, changes=2, losses=0, crashes=0, floors=1, ticks=0),
    "crash": Scope("pair", 2, changes=1, losses=0, crashes=1, floors=0, ticks=0),
    "line": Scope("line", 3, line=True, changes=1, losses=0, crashes=0, floors=1, ticks=0),
    "triangle": Scope("triangle", 3, changes=1, losses=0, crashes=0, floors=0, ticks=0),
}


@pytest.mark.parametrize("name", sorted(SMALL))
def test_every_order_of_a_small_scope_holds_every_property(name: str) -> None:
    outcome = explore(SMALL[name])
    assert outcome.violation is None, f"{outcome.violation}: {outcome.path}"
    assert outcome.complete
    assert outcome.rests >= 1
    assert outcome.transitions >= outcome.states - 1


def test_a_search_is_the_same_every_time() -> None:
    """Once it was not: copies of a replica kept encodings by the addresses of other objects."""
    scope = Scope("pair", 2, changes=2, losses=0, crashes=0, floors=1, ticks=0)
    outcomes = [explore(scope) for _ in range(2)]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].states > 100


def test_a_search_ends_when_it_has_had_enough() -> None:
    outcome = explore(SMALL["pair"], lambda: True)
    assert not outcome.complete
    assert outcome.violation is None


class Suspicious(Explorer):
    """Takes a break of the link after a change for a violation."""

    def perform(self, before: State, action: Action) -> State:
        if action[0] == "break" and before.changes:
            raise Violation("12", "the link broke after a change")
        return super().perform(before, action)


def test_a_path_is_shortened_to_what_breaks_the_property() -> None:
    explorer = Suspicious(Scope("pair", 2, changes=2, losses=1, crashes=0, floors=1, ticks=1))
    path: list[Action] = [("tick",), ("floor", "r1"), ("publish", "r1"), ("change", "r1")]
    path += [("publish", "r1"), ("deliver", "r1", "r2"), ("break", "r1", "r2")]
    assert replay(explorer, tuple(path)) == "12"
    short = shortened(explorer, tuple(path), "12")
    assert short == (("change", "r1"), ("break", "r1", "r2"))
    assert replay(explorer, short[:1]) is None


def test_the_command_says_what_was_searched(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["triangle", "--changes", "0", "--losses", "1", "--ticks", "0"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("triangle: 3 replicas, 0 changes, 1 losses")
    assert shown.endswith("complete\n")


def test_the_command_says_when_the_time_ran_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pair", "--seconds", "0"]) == 3
    assert capsys.readouterr().out.endswith("out of time\n")


def test_a_scope_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["ring"])
    assert stopped.value.code == 2
    assert "there is no scope ring; there are pair, " in capsys.readouterr().err


def test_a_search_shows_how_a_property_broke(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["pair", "--changes", "1", "--floors", "0"]
    assert main(arguments, Suspicious) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].endswith("12: the link broke after a change")
    assert shown[1:] == ["  change r1", "  break r1 r2"]
