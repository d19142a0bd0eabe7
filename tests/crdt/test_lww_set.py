"""The laws of the LWW-Element-Set, and case C38."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from crdt import CanonicalError, LWWElementSet, LWWEntry, Stamp
from tests.crdt.strategies import few_entries, folded, sets, statements

CASE = yaml.safe_load((Path(__file__).parents[1] / "data/cases/C38-tie.yaml").read_text("utf-8"))
Set = LWWElementSet[str]


@given(sets, sets)
def test_merge_is_commutative(a: Set, b: Set) -> None:
    assert a.merge(b) == b.merge(a)


@given(sets, sets, sets)
def test_merge_is_associative(a: Set, b: Set, c: Set) -> None:
    assert a.merge(b).merge(c) == a.merge(b.merge(c))


@given(sets)
def test_merge_is_idempotent_and_the_empty_set_is_neutral(a: Set) -> None:
    assert a.merge(a) == a == a.merge(Set()) == Set().merge(a)


@given(sets, sets)
def test_merge_changes_neither_argument(a: Set, b: Set) -> None:
    before = (dict(a.entries()), dict(b.entries()))
    a.merge(b).add("z", Stamp(9, "fjord"))
    assert (dict(a.entries()), dict(b.entries())) == before


@given(statements, st.randoms(use_true_random=False))
def test_any_order_and_repetition_of_statements_ends_alike(
    stated: list[tuple[str, LWWEntry]], dice: object
) -> None:
    again = stated + stated[::2]
    dice.shuffle(again)  # type: ignore[attr-defined]
    assert folded(again) == folded(stated)


@given(statements)
def test_compaction_answers_like_full_add_and_remove_sets(
    stated: list[tuple[str, LWWEntry]],
) -> None:
    compact = folded(stated)
    for element in "abcd":
        adds = [entry.stamp for name, entry in stated if name == element and not entry.removed]
        removes = [entry.stamp for name, entry in stated if name == element and entry.removed]
        present = bool(adds) and (not removes or max(adds) > max(removes))
        assert (element in compact) is present
        assert (element in set(compact)) is present
        if present:
            newest = [e for n, e in stated if n == element and e.stamp == max(adds)]
            found = compact.entry(element)
            assert found is not None
            assert found.order() == max(entry.order() for entry in newest)
    assert len(compact) == len(set(compact))


@given(sets, sets)
def test_a_delta_is_all_that_the_other_lacks_and_no_more(a: Set, b: Set) -> None:
    delta = a.delta(b)
    assert b.merge(delta) == a.merge(b)
    for element, entry in delta.entries():
        theirs = b.entry(element)
        assert theirs is None or theirs.order() < entry.order()
    assert a.delta(a) == LWWElementSet()


@given(sets, st.sampled_from("abc"), few_entries)
def test_put_says_whether_the_set_changed(a: Set, element: str, entry: LWWEntry) -> None:
    before = a.merge(LWWElementSet())
    assert a.put(element, entry) is (a != before)


@given(few_entries, few_entries)
def test_two_statements_under_one_stamp_are_counted_once(a: LWWEntry, b: LWWEntry) -> None:
    both = folded([("a", a), ("a", b)])
    conflict = a.stamp == b.stamp and a.order() != b.order()
    assert both.same_stamp_conflicts == conflict


def test_a_remove_beats_an_add_of_the_same_stamp_in_either_order() -> None:
    at = Stamp(6, "fjord")
    first, second = LWWElementSet[str](), LWWElementSet[str]()
    first.add("a", at, "larger")
    assert first.remove("a", at)
    second.remove("a", at)
    assert not second.add("a", at, "larger")
    assert first == second
    assert "a" not in first
    assert first.same_stamp_conflicts == second.same_stamp_conflicts == 1


def test_a_later_remove_beats_an_add_its_writer_never_saw() -> None:
    here, there = LWWElementSet[str](), LWWElementSet[str]()
    here.add("a", Stamp(5, "fjord"))
    there.remove("a", Stamp(6, "mesa"))
    assert "a" not in here.merge(there)


def test_a_value_without_canonical_bytes_is_refused_and_nothing_is_kept() -> None:
    elements = LWWElementSet[str]()
    with pytest.raises(CanonicalError):
        elements.add("a", Stamp(1, "fjord"), object())
    assert elements.entry("a") is None
    assert repr(elements) == "LWWElementSet(present=[], entries=0)"


def test_a_set_differs_from_other_things_and_has_no_hash() -> None:
    assert LWWElementSet[str]() != set()
    with pytest.raises(TypeError):
        hash(LWWElementSet[str]())


def stated_by(case: list[dict[str, object]]) -> list[LWWEntry]:
    """The statements of the case file."""
    return [
        LWWEntry(Stamp.parse(row["tag"]), removed=row["op"] == "remove", value=row["value"])
        for row in case
    ]


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_c38_every_order_with_repeated_prefixes_ends_in_one_state(order: tuple[int, ...]) -> None:
    entries = stated_by(CASE["statements"])
    delivered = [entries[at] for at in order]
    winner = stated_by([{"op": "add", **CASE["winner"]}])[0]
    for again in range(len(order) + 1):
        replicas = [LWWElementSet[str]() for _ in range(CASE["replicas"])]
        for turn, replica in enumerate(replicas):
            cut = (again + turn) % (len(order) + 1)
            for entry in delivered[:cut] + delivered[:again] + delivered:
                replica.put(CASE["element"], entry)
        merged = replicas[0].merge(replicas[1]).merge(replicas[2])
        assert all(replica == merged for replica in replicas)
        found = merged.entry(CASE["element"])
        assert found is not None
        assert found.order() == winner.order()


@pytest.mark.parametrize("order", list(permutations(range(4), 2)), ids=str)
def test_c38_of_two_values_under_one_tag_the_larger_bytes_win(order: tuple[int, int]) -> None:
    entries = stated_by(CASE["statements"])
    pair = [entries[at] for at in order]
    both = folded([("a", entry) for entry in pair])
    if {*order} == {0, 1}:
        expected = stated_by([{"op": "add", **CASE["of_the_equal_tags"]}])[0]
        found = both.entry("a")
        assert found is not None
        assert found.order() == expected.order()
        assert both.same_stamp_conflicts == 1
    else:
        assert both.same_stamp_conflicts == 0
