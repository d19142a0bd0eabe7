"""The strategies make values that hold what they promise; the references say what they ought."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdt import LWWElementSet, OriginSet, Stamp, Version
from crdt.testing import At, Crdt, Did, Do, schedules
from crdt.testing import strategies as kit
from crdt.testing.correct import lww_set, or_set
from crdt.testing.meanings import add_wins, last_set, last_stated, total
from crdt.testing.render import call, render, short
from crdt.testing.schedule import Deliver, Heal, Schedule, Send, Split, Sync
from crdt.testing.shorten import shorten

few = settings(max_examples=30)


@few
@given(kit.stamps(), kit.stamps(close=True), kit.elements(), kit.elements(close=True))
def test_stamps_and_elements_have_their_form(
    stamp: Stamp, close: Stamp, element: bytes, near: bytes
) -> None:
    assert Stamp.parse(str(stamp)) == stamp
    assert close.nanotime <= 10
    assert element[0] == near[0] == 0x93


@few
@given(kit.lww_sets(), kit.lww_sets(close=False), kit.entries())
def test_sets_are_sets_of_the_library(
    near: LWWElementSet[str], far: LWWElementSet[str], entry: object
) -> None:
    assert set(near) | set(far) <= set("xyz")
    assert near.merge(far) == far.merge(near)


@few
@given(kit.origin_sets(), kit.origin_sets(close=False, collected=False))
def test_origin_sets_keep_their_floor(near: OriginSet, far: OriginSet) -> None:
    assert near.floor <= near.version.stamp
    assert near.version <= Version(1, near.version.stamp)
    assert far.floor == 0


@few
@given(schedules(lww_set(), replicas=3, longest=6))
def test_schedules_are_of_two_or_three_replicas(schedule: Schedule) -> None:
    assert schedule.names in {("a", "b"), ("a", "b", "c")}
    assert len(schedule.events) <= 6
    assert all(event.replica < schedule.replicas for event in schedule.events if type(event) is Do)


def did(number: int, name: str, *arguments: Any, seen: tuple[int, ...] = ()) -> Did:
    return Did(number, At("a", number), name, arguments, frozenset(seen))


def test_meanings_of_a_few_operations() -> None:
    done = [did(1, "increment"), did(2, "increment", 3), did(3, "decrement", 2), did(4, "read")]
    assert total(done) == 2
    assert last_set([]) is None
    assert last_set([did(1, "set", "x"), did(2, "set", "y"), did(3, "read")]) == "y"
    stated = [did(1, "add", "x"), did(2, "remove", "x"), did(3, "add", "y"), did(4, "collect")]
    assert last_stated(stated) == {"y"}
    assert add_wins(stated) == {"x", "y"}
    assert add_wins([*stated[:1], did(2, "remove", "x", seen=(1,))]) == frozenset()


def test_values_are_written_alike_on_every_run() -> None:
    assert render({"b": {3, 1}, "a": [(), (1,)]}) == "{'a': [(), (1,)], 'b': {1, 3}}"
    assert render(frozenset()) == "{}"
    assert render((1, "x")) == "(1, 'x')"
    assert short("x" * 100, 11) == "'xxx...xxx'"
    assert call("add", ("x", 1)) == "add('x', 1)"


def test_the_shortest_schedule_keeps_what_matters_and_names_replicas_in_order() -> None:
    def two_adds(schedule: Schedule) -> bool:
        adds = [event for event in schedule.events if isinstance(event, Do)]
        return len(adds) == 2 and adds[0].replica != adds[1].replica

    add = [Do(2, "add", ("x",), 9), Split(1), Do(1, "add", ("y",), 2), Heal()]
    found = shorten(Schedule(3, tuple(add)), two_adds)
    assert found == Schedule(2, (Do(0, "add", ("x",), 1), Do(1, "add", ("y",), 1)))


def test_messages_are_renumbered_with_their_replicas() -> None:
    events = (Do(2, "add", ("x",)), Sync(2, 1), Send(1, 2), Split(1), Deliver(0), Heal())
    found = shorten(Schedule(3, events), lambda less: len(less.events) == len(events))
    assert found == Schedule(
        2, (Do(0, "add", ("x",)), Sync(0, 1), Send(1, 0), Split(1), Deliver(0), Heal())
    )


def test_a_replica_that_may_not_be_renamed_keeps_its_number() -> None:
    def at_c(schedule: Schedule) -> bool:
        return any(isinstance(event, Do) and event.replica == 2 for event in schedule.events)

    kept = Schedule(3, (Do(2, "add", ("x",), 1),))
    assert shorten(kept, at_c) == kept


def test_a_view_may_be_the_state_itself_or_what_is_read_of_it() -> None:
    crdt: Crdt[int] = Crdt(name="n", new=lambda _: 0, merge=max, equal=lambda a, b: a == b)
    assert crdt.agree(1, 1)
    assert not crdt.agree(1, 2)
    assert or_set().agree(or_set().new("a"), or_set().new("b"))


@pytest.mark.parametrize("name", ["fjord", "mesa"])
def test_close_clusters_are_few(name: str) -> None:
    assert re.fullmatch(r"[a-z]+", name)

    @settings(max_examples=20)
    @given(st.data())
    def drawn(data: Any) -> None:
        assert data.draw(kit.clusters(close=True)) in {"fjord", "mesa", "tundra"}

    drawn()
