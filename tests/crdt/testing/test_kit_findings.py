"""The kit is silent about right types, and finds every planted mistake in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from crdt.testing import (
    NAMES,
    Budget,
    ConvergenceMachine,
    Crdt,
    Form,
    LawBroken,
    check_laws,
    convergence_machine,
    examine,
    examine_states,
    in_place,
    operation,
)
from crdt.testing import strategies as kit
from crdt.testing.correct import g_counter, g_set, lww_register, lww_set, or_set
from crdt.testing.logs import epochs, log
from crdt.testing.ours import lww_element_set, origin_sets, version_vector
from crdt.testing.planted import PLANTED, Planted, early_collection, tied_register
from tests.crdt.strategies import vectors

RIGHT = [
    *(g_counter, lww_register, lww_set, or_set, g_set, log, epochs),
    *(lww_element_set, version_vector, origin_sets),
]
FEW = Budget(examples=40)
MOST_CPU_SECONDS = 30


@pytest.mark.parametrize("make", RIGHT, ids=lambda make: make.__name__)
def test_a_right_type_passes_every_law(make: Callable[[], Crdt[Any]]) -> None:
    check_laws(make(), budget=FEW)


@pytest.mark.parametrize("make", RIGHT, ids=lambda make: make.__name__)
def test_a_right_type_passes_the_convergence_machine(make: Callable[[], Crdt[Any]]) -> None:
    machine = convergence_machine(make())
    few = settings(machine.TestCase.settings, max_examples=4, derandomize=True, database=None)
    run_state_machine_as_test(machine, settings=few)


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.make.__name__)
def test_a_planted_mistake_is_found_and_its_history_is_short(mistake: Planted) -> None:
    started = time.process_time()
    (finding,) = examine(mistake.make(), laws=[mistake.law])
    assert time.process_time() - started < MOST_CPU_SECONDS
    assert finding.report is not None
    assert 1 <= len(finding.report.history) <= 6
    assert mistake.story


def test_there_are_at_least_ten_planted_mistakes_and_each_breaks_a_law_that_exists() -> None:
    assert len({mistake.make for mistake in PLANTED}) == len(PLANTED) >= 10
    assert {mistake.law for mistake in PLANTED} <= set(NAMES)


@pytest.mark.parametrize("make", [tied_register, early_collection], ids=lambda m: m.__name__)
def test_the_convergence_machine_finds_mistakes_too(make: Callable[[], Crdt[Any]]) -> None:
    machine = convergence_machine(make())
    many = settings(machine.TestCase.settings, max_examples=100, derandomize=True, database=None)
    with pytest.raises(LawBroken, match=r"the law .(convergence|meaning). is broken") as caught:
        run_state_machine_as_test(machine, settings=many)
    assert len(caught.value.reports[0].history) <= 6


def test_a_machine_of_no_type_cannot_tell() -> None:
    with pytest.raises(NotImplementedError):
        ConvergenceMachine().teardown()


def test_a_machine_without_operations_is_refused() -> None:
    nothing: Crdt[int] = Crdt(name="nothing", new=lambda _: 0, merge=max)
    with pytest.raises(ValueError, match="nothing has no operations, so nothing can diverge"):
        convergence_machine(nothing)


def test_the_same_search_finds_the_same_twice() -> None:
    texts = [
        [finding.report.text() for finding in examine(tied_register()) if finding.report]
        for _ in range(2)
    ]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 4


def test_states_alone_are_enough_for_the_laws_of_merge() -> None:
    check_laws(lww_element_set(), kit.lww_sets(), budget=FEW)
    check_laws(version_vector(), vectors, budget=FEW)
    floats: Crdt[int] = Crdt(name="difference", new=lambda _: 0, merge=lambda a, b: abs(a - b))
    findings = examine_states(floats, st.integers(0, 9), laws=["idempotent", "commutative"])
    assert [(finding.law, finding.held) for finding in findings] == [
        ("commutative", True),
        ("idempotent", False),
    ]
    report = findings[1].report
    assert report is not None
    assert report.history == ("a = 0", "b = 1", "c = 0")
    assert report.text() == (
        "difference: the law 'idempotent' is broken\n"
        "  merging again what is merged changes nothing\n"
        "\n"
        "states\n"
        "  a = 0\n"
        "  b = 1\n"
        "  c = 0\n"
        "\n"
        "  merge(merge(a, b), b)  0\n"
        "  merge(a, b)            1"
    )
    assert "<title>difference: idempotent</title>" in report.svg()


def test_all_breaches_are_told_at_once() -> None:
    with pytest.raises(LawBroken) as caught:
        check_laws(tied_register())
    laws = [report.law for report in caught.value.reports]
    assert laws == ["commutative", "any order", "convergence", "meaning"]
    assert str(caught.value).count("is broken") == len(laws)


def test_an_unknown_law_and_a_type_without_operations_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown laws \\['funny'\\]; there are equality, "):
        examine(g_counter(), laws=["funny"])
    bare: Crdt[int] = Crdt(name="bare", new=lambda _: 0, merge=max)
    with pytest.raises(ValueError, match="bare has no operations: give some, or use examine_st"):
        examine(bare)


def test_a_type_that_raises_breaks_the_law_that_called_it() -> None:
    def merge(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
        return {name: max(a[name], b[name]) for name in a}

    def count(counts: dict[str, int], at: Any) -> dict[str, int]:
        return counts | {at.replica: counts.get(at.replica, 0) + 1}

    needs_all: Crdt[dict[str, int]] = Crdt(
        name="needs all keys",
        new=lambda _: {},
        merge=merge,
        operations={"count": operation(count)},
    )
    (finding,) = examine(needs_all, laws=["commutative"])
    assert finding.report is not None
    assert finding.report.contrast.found == "raised KeyError: 'a'"
    assert finding.report.history == ("a: count() at 1",)
    (finding,) = examine(needs_all, laws=["convergence"])
    assert finding.report is not None
    assert "stopped: KeyError: 'a'" in finding.report.text()


def test_a_type_that_is_not_always_alike_is_told_of_all_the_same() -> None:
    turns = iter(range(10_000))

    def moody(a: int, b: int) -> int:
        return max(a, b) + (next(turns) in {3, 10, 17, 24, 31, 38})

    rare: Crdt[int] = Crdt(
        name="moody",
        new=lambda _: 0,
        merge=moody,
        operations={"tick": operation(lambda s, _: s + 1)},
    )
    findings = examine(rare, laws=["commutative"])
    turns = iter(range(10_000))
    findings += examine_states(rare, st.integers(0, 3), laws=["commutative"])
    left = [finding.report.contrast.left for finding in findings if finding.report]
    assert left == ["merge(a, b)", "merge(a, b)"]


def _order_crdt(order: Callable[[int, int], bool]) -> Crdt[int]:
    return Crdt(
        name="ordered",
        new=lambda _: 0,
        merge=max,
        operations={"tick": operation(lambda s, _: s + 1)},
        order=order,
    )


@pytest.mark.parametrize(
    ("order", "law", "left"),
    [
        (lambda a, b: a < b, "ordered", "a"),
        (lambda a, b: a >= b, "inflation", "before the operation"),
        (lambda _a, _b: True, "ordered", "merge(a, b), a being at most b"),
        (lambda a, b: a == b or b == a + 1, "ordered", "a"),
    ],
)
def test_a_wrong_order_is_objected_to(
    order: Callable[[int, int], bool], law: str, left: str
) -> None:
    (finding,) = examine(_order_crdt(order), laws=[law])
    assert finding.report is not None
    assert finding.report.contrast.left == left


def test_a_state_that_differs_from_its_own_copy_says_that_equality_is_missing() -> None:
    class Bare:
        pass

    crdt: Crdt[Bare] = Crdt(
        name="no equality",
        new=lambda _: Bare(),
        merge=lambda a, _: a,
        operations={"nothing": operation(in_place(lambda _s, _at: None))},
    )
    (finding,) = examine(crdt, laws=["equality"])
    assert not finding.held


def test_a_merge_that_damages_its_first_argument_is_impure_unless_it_is_in_place() -> None:
    def merge(a: set[str], b: set[str]) -> set[str]:
        a |= b
        return a

    damaging = Crdt(
        name="damaging",
        new=lambda _: set(),
        merge=merge,
        operations={"add": operation(in_place(lambda s, at: s.add(at.replica)))},
    )
    (finding,) = examine(damaging, laws=["pure"])
    assert finding.report is not None
    assert finding.report.contrast.left == "a after merge(a, b)"


def test_a_written_form_that_merges_otherwise_is_objected_to() -> None:
    class Count:
        def __init__(self, value: int, *, read: bool = False) -> None:
            self.value, self.read = value, read

    def merge(a: Any, b: Any) -> Any:
        return Count(0 if b.read else max(a.value, b.value))

    crdt: Crdt[Any] = Crdt(
        name="other after reading",
        new=lambda _: Count(0),
        merge=merge,
        operations={"tick": operation(lambda s, _: Count(s.value + 1))},
        view=lambda count: count.value,
        form=Form(dump=lambda c: c.value, load=lambda value: Count(value, read=True)),
    )
    (finding,) = examine(crdt, laws=["round trip"])
    assert finding.report is not None
    assert finding.report.contrast.left == "merge(b, load(dump(a)))"
