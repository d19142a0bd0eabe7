"""From a failing plan to a small one that fails in the same way, and the command that replays it.

Delta debugging over the steps (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
Input", 2002), after cheaper cuts: what comes after the failure, churn, regions, later versions,
jitter.  What is left out moves nothing else, so most cuts that look harmless are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from replicator.simulation.dice import Shape, make_plan
from replicator.simulation.plan import FAULTS, Plan, list_of
from replicator.simulation.run import Found, Report, run

MOST_RUNS = 400
"""Runs that one shrinking may cost."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What is changed of the plan that a seed makes."""

    only: tuple[int, ...] | None = None
    """Numbers of the steps that are left; None: all."""
    without: tuple[str, ...] = ()
    """Regions left out."""
    until: float | None = None
    """When mending begins, instead of after ``seconds``."""
    churn: float | None = None
    jitter: float | None = None
    same_version: bool = False
    """No region begins with another version than the present one."""

    def apply(self, plan: Plan) -> Plan:
        """The plan after the cut."""
        if self.only is not None:
            plan = plan.only(self.only)
        plan = plan.without(self.without)
        if self.until is not None:
            plan = replace(plan, seconds=self.until)
        if self.churn is not None:
            plan = replace(plan, churn=self.churn)
        if self.jitter is not None:
            plan = replace(plan, jitter=self.jitter)
        return replace(plan, newer=(), older=()) if self.same_version else plan


def command_of(seed: int, shape: Shape, cut: Cut) -> str:
    """The command that runs exactly this again."""
    words = ["replicator simulate", f"--seed {seed}", f"--regions {shape.regions}"]
    words.append(f"--seconds {shape.seconds:g}")
    if shape.steps is not None:
        words.append(f"--steps {shape.steps}")
    churn = shape.churn if cut.churn is None else cut.churn
    if shape.steps is None and churn != Shape().churn:
        words.append(f"--churn {churn:g}")
    if shape.faults != tuple(FAULTS):
        words.append(f"--faults {','.join(shape.faults) or 'none'}")
    if cut.only is not None:
        words.append(f"--only {list_of(cut.only) or 'none'}")
    if cut.without:
        words.append(f"--without {','.join(cut.without)}")
    if cut.until is not None:
        words.append(f"--until {cut.until:g}")
    if cut.jitter is not None:
        words.append(f"--jitter {cut.jitter:g}")
    if cut.same_version:
        words.append("--same-version")
    return " ".join(words)


class Shrinker:
    """Makes one failing plan small."""

    def __init__(self, plan: Plan, found: Found, runner: Callable[[Plan], Report] = run) -> None:
        """``found`` is what running ``plan`` gave."""
        self._plan = plan
        self._rule = found.rule
        self._run = runner
        self.cut = Cut()
        self.found = found
        self.runs = 0

    def _takes(self, cut: Cut) -> bool:
        """Whether the plan still fails after ``cut``, which then stays."""
        if self.runs >= MOST_RUNS:
            return False
        self.runs += 1
        found = self._run(cut.apply(self._plan)).found
        if found is None or found.rule != self._rule:
            return False
        self.cut, self.found = cut, found
        return True

    def shrink(self) -> Cut:
        """The smallest cut found; deterministic."""
        self._end()
        if self._plan.churn > 0:
            self._takes(replace(self.cut, churn=0.0))
        if self._plan.newer or self._plan.older:
            self._takes(replace(self.cut, same_version=True))
        if self._plan.jitter:
            self._takes(replace(self.cut, jitter=0.0))
        for name in reversed(self._plan.regions):
            if len(self._plan.regions) - len(self.cut.without) > 2:  # noqa: PLR2004 - a pair
                self._takes(replace(self.cut, without=(*self.cut.without, name)))
        self._minimize()
        self._end()
        return self.cut

    def _numbers(self) -> tuple[int, ...]:
        """Steps that are left and do something."""
        left = range(len(self._plan.steps)) if self.cut.only is None else self.cut.only
        gone = set(self.cut.without)
        steps = self._plan.steps
        return tuple(n for n in left if not gone & {steps[n].region, steps[n].other})

    def _end(self) -> None:
        """Leave out what comes after the failure, then the quiet time before the mending."""
        steps = self._plan.steps
        early = tuple(n for n in self._numbers() if steps[n].at <= self.found.at)
        if len(early) < len(self._numbers()):
            self._takes(replace(self.cut, only=early))
        last = max((steps[n].at for n in self._numbers()), default=0.0)
        for until in (round(last + 0.001, 3), round(last + 1.0, 3)):
            if until < self.cut.apply(self._plan).seconds and self._takes(
                replace(self.cut, until=until)
            ):
                return

    def _minimize(self) -> None:
        """Leave out ever smaller parts of the steps, as long as any can be."""
        parts = 2
        while numbers := self._numbers():
            parts = min(parts, len(numbers))
            if self._leaves_out(numbers, parts):
                parts = max(2, parts - 1)
            elif parts == len(numbers):
                return
            else:
                parts *= 2

    def _leaves_out(self, numbers: tuple[int, ...], parts: int) -> bool:
        return any(
            self._takes(replace(self.cut, only=rest)) for rest in _complements(numbers, parts)
        )


def _complements(numbers: tuple[int, ...], parts: int) -> Iterator[tuple[int, ...]]:
    """``numbers`` without each of so many parts of it."""
    size = -(-len(numbers) // parts)
    for start in range(0, len(numbers), size):
        yield numbers[:start] + numbers[start + size :]


def shrunk(
    seed: int, shape: Shape, base: Cut, found: Found, runner: Callable[[Plan], Report] = run
) -> tuple[Cut, Found]:
    """The smallest cut of a seed's failing plan, beside what ``base`` left out already."""
    plan = make_plan(seed, shape)
    numbers = base.only if base.only is not None else tuple(range(len(plan.steps)))
    shrinker = Shrinker(base.apply(plan), found, runner)
    cut = shrinker.shrink()
    kept = base.apply(plan).steps if cut.only is None else base.apply(plan).only(cut.only).steps
    left = tuple(n for n in numbers if plan.steps[n] in kept)
    return (
        replace(
            cut,
            only=left if cut.only is not None or base.only is not None else None,
            without=(*base.without, *cut.without),
            until=base.until if cut.until is None else cut.until,
            churn=base.churn if cut.churn is None else cut.churn,
            jitter=base.jitter if cut.jitter is None else cut.jitter,
            same_version=base.same_version or cut.same_version,
        ),
        shrinker.found,
    )
