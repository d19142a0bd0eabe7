"""Checking the laws: search with Hypothesis, shrink, and report.

:func:`examine` tells of every law whether it was seen to hold; :func:`check_laws` raises
:class:`LawBroken` with a report to read.  The search is the same on every run: no database, no
clock, and Hypothesis's choices derived from the law alone.  "Held" means that no schedule of the
budget broke the law, not that none can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.strategies import SearchStrategy

from crdt.testing.catalogue import NAMES, run_laws, state_laws
from crdt.testing.laws import Contrast, Law, RunLaw, StateLaw, Statement, guard
from crdt.testing.network import played
from crdt.testing.report import Report, reported, reported_states
from crdt.testing.schedule import Schedule, schedules
from crdt.testing.shorten import shorten
from crdt.testing.subject import Crdt

S = TypeVar("S")
T = TypeVar("T")
L = TypeVar("L", bound=Statement)

EXAMPLES = 200
"""Schedules tried for one law."""


class LawBroken(AssertionError):  # noqa: N818 - named as a person would say it
    """A type breaks laws; the text of the error is the reports, ``reports`` the same as objects."""

    def __init__(self, reports: Sequence[Report]) -> None:
        super().__init__("\n\n".join(report.text() for report in reports))
        self.reports = tuple(reports)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one law: None when no counter-example was."""

    law: str
    words: str
    report: Report | None

    @property
    def held(self) -> bool:
        """Whether no counter-example was found."""
        return self.report is None


class _Found(Exception):  # noqa: N818 - never leaves this module
    """A counter-example, for Hypothesis to shrink."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How hard to search: examples for a law, replicas (2 to 8) and events in a schedule."""

    examples: int = EXAMPLES
    replicas: int = 3
    longest: int = 12


_USUAL = Budget()


def quiet(examples: int, *, shrink: bool = True) -> settings:
    """Hypothesis settings under which a search is repeatable and silent."""
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=Verbosity.quiet,
    )


def search(
    cases: SearchStrategy[T],
    judge: Callable[[T], Contrast | None],
    examples: int,
    *,
    shrink: bool = True,
) -> tuple[T, Contrast] | None:
    """The simplest case that ``judge`` objects to, and its objection; None when it finds none.

    A judge that does not always say the same of a case (its type reads a clock or throws dice) gets
    the last case it objected to.
    """
    found: list[tuple[T, Contrast]] = []

    @quiet(examples, shrink=shrink)
    @given(cases)
    def attempt(case: T) -> None:
        objected = judge(case)
        if objected is not None:
            found.append((case, objected))
            raise _Found

    try:
        attempt()
    except (_Found, Flaky):
        return found[-1]
    return None


def _three(states: Sequence[S]) -> tuple[S, S, S]:
    return (states[0], states[1 % len(states)], states[2 % len(states)])


def examine(
    crdt: Crdt[S], *, laws: Iterable[str] | None = None, budget: Budget = _USUAL
) -> list[Finding]:
    """Look for a counter-example to every applicable law (or to those of ``laws``).

    Needs operations; :func:`examine_states` does not.  Raises ValueError for an unknown law.
    """
    if not crdt.operations:
        raise ValueError(f"{crdt.name} has no operations: give some, or use examine_states")

    def objection(law: Law[S], schedule: Schedule) -> Contrast | None:
        if isinstance(law, RunLaw):
            return law.holds(crdt, schedule)
        return law.holds(crdt, _three(played(crdt, schedule).states), schedule)

    cases = schedules(crdt, budget.replicas, budget.longest)
    chosen: list[Law[S]] = _chosen([*state_laws(crdt), *run_laws(crdt)], laws)

    def simplest(law: Law[S], schedule: Schedule) -> Schedule:
        return shorten(schedule, lambda less: guard(objection, law, less) is not None)

    return _findings(chosen, cases, objection, (simplest, partial(reported, crdt)), budget.examples)


def examine_states(
    crdt: Crdt[S],
    states: SearchStrategy[S],
    *,
    laws: Iterable[str] | None = None,
    examples: int = EXAMPLES,
) -> list[Finding]:
    """As :func:`examine`, for states that ``states`` makes and without operations."""

    def objection(law: StateLaw[S], three: tuple[S, S, S]) -> Contrast | None:
        return law.holds(crdt, three, Schedule(3))

    def simplest(law: StateLaw[S], three: tuple[S, S, S]) -> tuple[S, S, S]:
        found = search(cases, partial(guard, objection, law), examples)
        return three if found is None else found[0]

    cases = st.tuples(states, states, states)
    chosen = _chosen(state_laws(crdt), laws)
    telling = (simplest, partial(reported_states, crdt))
    return _findings(chosen, cases, objection, telling, examples)


def _findings(
    laws: Sequence[L],
    cases: SearchStrategy[T],
    objection: Callable[[L, T], Contrast | None],
    telling: tuple[Callable[[L, T], T], Callable[[L, T, Contrast], Report]],
    examples: int,
) -> list[Finding]:
    """Try all laws on the same cases; of those that broke, report the simplest case."""
    broken: dict[int, tuple[T, Contrast]] = {}

    def all_of_them(case: T) -> Contrast | None:
        for number, law in enumerate(laws):
            if number not in broken:
                found = guard(objection, law, case)
                if found is not None:
                    broken[number] = (case, found)
        return broken[0][1] if len(broken) == len(laws) else None

    search(cases, all_of_them, examples, shrink=False)
    simplest, report = telling
    findings = []
    for number, law in enumerate(laws):
        made = None
        if number in broken:
            case, found = broken[number]
            case = simplest(law, case)
            made = report(law, case, guard(objection, law, case) or found)
        findings.append(Finding(law.name, law.words, made))
    return findings


def check_laws(
    crdt: Crdt[S],
    states: SearchStrategy[S] | None = None,
    *,
    laws: Iterable[str] | None = None,
    budget: Budget = _USUAL,
) -> None:
    """Raise :class:`LawBroken` unless every law (or every one of ``laws``) was seen to hold.

    States come about by the type's operations, or, when ``states`` is given, from that strategy.
    """
    if states is None:
        findings = examine(crdt, laws=laws, budget=budget)
    else:
        findings = examine_states(crdt, states, laws=laws, examples=budget.examples)
    reports = [finding.report for finding in findings if finding.report is not None]
    if reports:
        raise LawBroken(reports)


def _chosen(known: Sequence[L], wanted: Iterable[str] | None) -> list[L]:
    if wanted is None:
        return list(known)
    names = set(wanted)
    unknown = names - set(NAMES)
    if unknown:
        raise ValueError(f"unknown laws {sorted(unknown)}; there are {', '.join(NAMES)}")
    return [law for law in known if law.name in names]
