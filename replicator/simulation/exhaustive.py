"""``python -m replicator.simulation.exhaustive``: every order of few events, in small scopes.

Depth first over whole states, each expanded once (states are told apart by a hash of everything
that can still have an effect).  Where nothing can happen any more, the replicas must come to rest.
A violation is shown as the list of what happened, made short.  Exit status 0 when all scopes were
searched to their end, 1 with a violation, 3 when the time ran out first.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from replicator.simulation.monitor import Violation
from replicator.simulation.scope import Action, Explorer, Scope, State

SCOPES = (
    Scope("pair", 2, changes=2, losses=1, crashes=0, floors=1, ticks=0),
    Scope("pair-crash", 2, changes=1, losses=1, crashes=1, floors=1, ticks=0),
    Scope("pair-long", 2, changes=4, losses=0, crashes=0, floors=1, ticks=0),
    Scope("line", 3, line=True, changes=1, losses=1, crashes=0, floors=1, ticks=0),
    Scope("triangle", 3, changes=1, losses=1, crashes=0, floors=0, ticks=0),
)
"""What is searched when nothing is named: some two minutes."""
LARGER = (
    Scope("line-crash", 3, line=True, changes=1, losses=0, crashes=1, floors=0, ticks=0),
    Scope("pair-all", 2, changes=3, losses=1, crashes=1, floors=1, ticks=1),
)
"""What is searched only when it is named."""
_NUMBERS = ("changes", "losses", "crashes", "floors", "ticks")
_CHECK_EVERY = 64
Path = tuple[Action, ...]


@dataclass(slots=True)
class Outcome:
    """What a search came to."""

    scope: Scope
    states: int = 0
    transitions: int = 0
    rests: int = 0
    """States where nothing more could happen."""
    deepest: int = 0
    complete: bool = False
    violation: str | None = None
    path: Path = ()


def explore(
    scope: Scope,
    enough: Callable[[], bool] = lambda: False,
    maker: Callable[[Scope], Explorer] = Explorer,
) -> Outcome:
    """Search ``scope`` until its end, a violation, or ``enough`` says so."""
    explorer, outcome = maker(scope), Outcome(scope)
    first = explorer.first()
    seen = {hash(first.key())}
    stack: list[tuple[State, Path]] = [(first, ())]
    while stack:
        state, path = stack.pop()
        outcome.states += 1
        outcome.deepest = max(outcome.deepest, len(path))
        if outcome.states % _CHECK_EVERY == 0 and enough():
            return outcome
        try:
            for found in _expand(explorer, state, path, outcome):
                mark = hash(found[0].key())
                if mark not in seen:
                    seen.add(mark)
                    stack.append(found)
        except Violation as violation:
            outcome.violation = str(violation)
            outcome.path = shortened(explorer, outcome.path, violation.rule)
            return outcome
    outcome.complete = True
    return outcome


def _expand(
    explorer: Explorer, state: State, path: Path, outcome: Outcome
) -> Iterator[tuple[State, Path]]:
    """The states after ``state``, each with how it was reached; ``outcome.path`` follows."""
    outcome.path = path
    actions = explorer.actions(state)
    if not actions:
        outcome.rests += 1
        explorer.rest(state)
    for action in actions:
        outcome.transitions += 1
        outcome.path = (*path, action)
        yield explorer.perform(state, action), outcome.path


def replay(explorer: Explorer, path: Path) -> str | None:
    """The property that breaks along ``path``, at its end rest included; None when none does.

    What cannot happen at its place is passed over.
    """
    state = explorer.first()
    try:
        for action in path:
            if action in explorer.actions(state):
                state = explorer.perform(state, action)
        explorer.rest(state)
    except Violation as violation:
        return violation.rule
    return None


def shortened(explorer: Explorer, path: Path, rule: str) -> Path:
    """``path`` without what is not needed to break ``rule``."""
    shorter = True
    while shorter:
        shorter = False
        for at in reversed(range(len(path))):
            rest = path[:at] + path[at + 1 :]
            if replay(explorer, rest) == rule:
                path, shorter = rest, True
    return path


def _shown(outcome: Outcome, seconds: float) -> str:
    scope = outcome.scope
    end = "complete" if outcome.complete else outcome.violation or "out of time"
    return (
        f"{scope.name}: {scope.replicas} replicas, {scope.changes} changes, {scope.losses} losses, "
        f"{scope.crashes} crashes, {scope.floors} floor moves, {scope.ticks} beats: "
        f"{outcome.states:,} states, {outcome.transitions:,} transitions, {outcome.rests:,} rests, "
        f"depth {outcome.deepest}, {seconds:.1f} s: {end}"
    )


def _asked(argv: Sequence[str] | None) -> tuple[list[Scope], float]:
    """The scopes to search, and the seconds for each."""
    parser = argparse.ArgumentParser(prog="replicator.simulation.exhaustive")
    known = {scope.name: scope for scope in SCOPES + LARGER}
    parser.add_argument("scopes", nargs="*", metavar="SCOPE", help=", ".join(known))
    parser.add_argument("--seconds", type=float, default=600.0, help="for each scope at most")
    for name in _NUMBERS:
        parser.add_argument(f"--{name}", type=int, help="instead of the scope's own number")
    given = parser.parse_args(argv)
    unknown = [name for name in given.scopes if name not in known]
    if unknown:
        parser.error(f"there is no scope {unknown[0]}; there are {', '.join(known)}")
    numbers = {name: getattr(given, name) for name in _NUMBERS}
    changed = {name: number for name, number in numbers.items() if number is not None}
    scopes = [known[name] for name in given.scopes] or list(SCOPES)
    return [replace(scope, **changed) for scope in scopes], given.seconds


def _over(end: float) -> bool:
    return time.process_time() > end


def main(argv: Sequence[str] | None = None, maker: Callable[[Scope], Explorer] = Explorer) -> int:
    """Search the scopes named (or all but the larger ones) and say what was found."""
    scopes, seconds = _asked(argv)
    status = 0
    for scope in scopes:
        began = time.process_time()
        outcome = explore(scope, partial(_over, began + seconds), maker)
        sys.stdout.write(_shown(outcome, time.process_time() - began) + "\n")
        for action in outcome.path if outcome.violation else ():
            sys.stdout.write(f"  {' '.join(action)}\n")
        sys.stdout.flush()
        if outcome.violation is not None:
            status = 1
        elif not outcome.complete:
            status = status or 3
    return status


if __name__ == "__main__":
    sys.exit(main())
