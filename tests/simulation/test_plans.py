"""Plans: their text, their cuts, their dice; and making failing ones small."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import InputError
from replicator.simulation.dice import Shape, faults_of, make_plan, names_of
from replicator.simulation.plan import FAULTS, Plan, Step, list_of, load, numbers_of
from replicator.simulation.run import Found, Report
from replicator.simulation.shrink import MOST_RUNS, Cut, Shrinker, command_of, shrunk

SHAPE = Shape(regions=4, seconds=6.0, steps=60, churn=0.0)


def test_a_plan_survives_its_text() -> None:
    for seed in range(20):
        plan = make_plan(seed, SHAPE)
        assert load(plan.dump()) == plan


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        json.dumps({"seed": 1, "regions": ["r1"], "newer": [], "seconds": 1, "steps": [[1]]}),
        Plan(1, ("r1",), 1.0).dump().replace('"chunk"', '"chonk"'),
        Plan(1, ("r1",), 1.0, steps=(Step(0.0, "earthquake", "r1"),)).dump(),
    ],
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="plan"):
        load(text)


@given(st.sets(st.integers(0, 40)))
def test_numbers_survive_their_text(numbers: set[int]) -> None:
    assert set(numbers_of(list_of(numbers))) == numbers


def test_a_list_of_numbers_is_short() -> None:
    assert list_of([9, 1, 2, 3, 5, 3]) == "1-3,5,9"
    assert numbers_of("") == []
    with pytest.raises(InputError, match="number"):
        numbers_of("1,x")


def test_faults_are_named_or_refused() -> None:
    assert faults_of("all") == tuple(FAULTS)
    assert faults_of("none") == ()
    assert faults_of("crash,oneway") == ("crash", "oneway")
    with pytest.raises(InputError, match="earthquake"):
        faults_of("earthquake")


def test_only_the_faults_asked_for_come() -> None:
    shape = Shape(regions=3, seconds=60.0, faults=("crash", "floor"))
    kinds = {step.kind for seed in range(20) for step in make_plan(seed, shape).steps}
    assert kinds == {"crash", "floor"}
    calm = Shape(regions=3, seconds=60.0, faults=())
    assert make_plan(1, calm).steps == ()


def test_a_region_is_left_out_with_all_that_happens_to_it() -> None:
    plan = make_plan(1, SHAPE).without(["r2"])
    assert plan.regions == ("r1", "r3", "r4")
    assert not any("r2" in {step.region, step.other} for step in plan.steps)
    assert names_of(2) == ("r1", "r2")


def test_a_step_says_what_it_is() -> None:
    assert str(Step(1.5, "slow", "r1", "r2", 3.0, 200)) == "1.500 slow r1 r2 for 3 s amount 200"
    assert str(Step(0.0, "clock", "r1", amount=-5)) == "0.000 clock r1 amount -5"


def runner(fails: Callable[[Plan], bool]) -> Callable[[Plan], Report]:
    """A run that only looks at its plan."""

    def run(plan: Plan) -> Report:
        found = Found("12", "planted", 5.0) if fails(plan) else None
        counts = dict.fromkeys(("events", "checks", "frames", "bytes", "commits", "starts"), 0)
        return Report(plan, found, None, 6.0, **counts, copies=0.0, digest="")

    return run


def small(plan: Plan, fails: Callable[[Plan], bool]) -> Shrinker:
    shrinker = Shrinker(plan, Found("12", "planted", 5.0), runner(fails))
    shrinker.shrink()
    assert fails(shrinker.cut.apply(plan))
    return shrinker


@given(st.sets(st.integers(0, 45), min_size=1, max_size=4))
def test_only_the_steps_that_matter_are_left(wanted: set[int]) -> None:
    plan = make_plan(3, SHAPE)
    needed = {plan.steps[number] for number in wanted if plan.steps[number].at <= 5.0}
    cut = small(plan, lambda plan: needed <= {*plan.steps}).cut
    assert {*cut.apply(plan).steps} == needed
    assert cut.same_version == bool(plan.newer)


def test_regions_and_churn_that_do_not_matter_are_left_out() -> None:
    plan = make_plan(4, Shape(regions=5, seconds=6.0))
    cut = small(plan, lambda plan: {"r2", "r4"} <= {*plan.regions}).cut
    assert cut.without == ("r5", "r3", "r1")
    assert cut.churn == 0.0
    assert cut.jitter == 0.0
    assert cut.apply(plan).steps == ()


def test_what_matters_is_kept() -> None:
    plan = make_plan(4, Shape(regions=2, seconds=6.0))
    cut = small(plan, lambda plan: plan.churn > 0 and plan.jitter > 0 and plan.seconds > 1.0).cut
    assert (cut.churn, cut.jitter) == (None, None)


def test_another_property_is_another_failure() -> None:
    plan = make_plan(3, SHAPE)
    shrinker = Shrinker(plan, Found("13", "planted", 5.0), runner(lambda _: True))
    shrinker.shrink()
    assert shrinker.cut == Cut()


def test_shrinking_costs_a_bounded_number_of_runs() -> None:
    plan = make_plan(3, Shape(regions=3, seconds=6.0, steps=2000, churn=0.0))
    shrinker = small(plan, lambda plan: len(plan.steps) % 7 == 0)
    assert shrinker.runs <= MOST_RUNS


def test_the_command_names_only_what_differs() -> None:
    assert command_of(1, Shape(), Cut()) == "replicator simulate --seed 1 --regions 5 --seconds 60"
    shape = Shape(3, 6.0, 60, 0.0, ("crash",))
    cut = Cut((1, 2, 5), ("r3",), 2.5, None, 0.0, same_version=True)
    assert command_of(7, shape, cut) == (
        "replicator simulate --seed 7 --regions 3 --seconds 6 --steps 60 --faults crash"
        " --only 1-2,5 --without r3 --until 2.5 --jitter 0 --same-version"
    )
    calm = command_of(1, Shape(faults=()), Cut(only=(), churn=0.0))
    assert calm.endswith("--churn 0 --faults none --only none")


def test_a_cut_of_a_seed_that_was_cut_before_names_the_steps_of_the_seed() -> None:
    shape = Shape(regions=3, seconds=6.0, steps=60, churn=0.0)
    plan = make_plan(5, shape)
    wanted = plan.steps[30]
    base = Cut(only=tuple(range(20, 60)), same_version=True)
    cut, found = shrunk(
        5, shape, base, Found("12", "planted", 6.0), runner(lambda plan: wanted in plan.steps)
    )
    assert found.rule == "12"
    assert cut.only == (30,)
    assert cut.same_version
