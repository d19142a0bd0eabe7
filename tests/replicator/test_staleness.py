"""Staleness: when a cluster is turned down, when it is heard again, and what is written of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.model import Endpoint, Manifest, Port
from replicator.staleness import Policy, Rule, Show, Staleness, View

PORTS = (Port("http", 8080),)
START = 1000.0
DOWN = {Policy.NOT_READY: Show.NOT_READY, Policy.WITHDRAW: Show.WITHDRAWN}
ACTIVE = (Policy.NOT_READY, Policy.WITHDRAW)


def rule(policy: Policy, *, last: bool = False) -> Rule:
    """After a minute, or ten."""
    return Rule(policy, 60.0, 600.0, last)


def endpoint(number: int, *, ready: bool = True, terminating: bool = False) -> Endpoint:
    return Endpoint(f"10.20.1.{number}", PORTS, ready=ready, serving=ready, terminating=terminating)


def written(*clusters: str) -> list[Manifest]:
    """An object of ours for each."""
    label = "multicluster.kubernetes.io/source-cluster"
    return [{"metadata": {"name": f"x-{c}", "labels": {label: c}}} for c in clusters]


def standing(policy: Policy, shows: dict[str, Show], *, last: bool = False) -> Staleness:
    """A machine that was brought to ``shows``."""
    made = Staleness(rule(policy, last=last), START)
    at = START
    heard: dict[str, float | None] = dict.fromkeys(shows)
    for _ in range(2):
        at += 1
        heard |= {c: at for c, show in shows.items() if show is Show.AS_STATED}
        made.review(heard, at, current=False)
    if DOWN[policy] in shows.values():
        end = at + 700.0
        for current in (False, True):
            heard |= {c: end + current for c, show in shows.items() if show is Show.AS_STATED}
            calm = {c: end for c, show in shows.items() if show is Show.UNSURE}
            made.review(heard | calm, end + current, current=current)
    assert {cluster: made.of(cluster) for cluster in shows} == shows
    return made


@pytest.mark.parametrize(
    ("policy", "silence", "current", "show"),
    [
        (Policy.KEEP, 1e9, True, Show.AS_STATED),
        (Policy.NOT_READY, 59.9, True, Show.AS_STATED),
        (Policy.NOT_READY, 60.0, True, Show.NOT_READY),
        (Policy.NOT_READY, 60.0, False, Show.AS_STATED),
        (Policy.WITHDRAW, 60.0, True, Show.AS_STATED),
        (Policy.WITHDRAW, 599.9, True, Show.AS_STATED),
        (Policy.WITHDRAW, 600.0, True, Show.WITHDRAWN),
        (Policy.WITHDRAW, 600.0, False, Show.AS_STATED),
    ],
)
def test_a_cluster_is_turned_down_after_its_time_and_not_before_the_view_is_current(
    policy: Policy, silence: float, show: Show, *, current: bool
) -> None:
    machine = Staleness(rule(policy), START)
    machine.review({"fjord": START}, START, current=False)
    machine.review({"fjord": START + 1}, START + 1, current=False)
    before = machine.of("fjord")
    assert before is Show.AS_STATED
    turned = machine.review({"fjord": START + 1}, START + 1 + silence, current=current)
    assert machine.of("fjord") is show
    assert turned == ([] if show is before else ["fjord"])
    assert machine.review({"fjord": START + 1}, START + 1 + silence, current=current) == []


@pytest.mark.parametrize(("policy", "limit"), [(Policy.NOT_READY, 60.0), (Policy.WITHDRAW, 600.0)])
def test_a_cluster_not_heard_in_this_life_is_unsure_until_its_time_is_over(
    policy: Policy, limit: float
) -> None:
    machine = Staleness(rule(policy), START)
    machine.review({"fjord": None}, START, current=True)
    assert machine.of("fjord") is Show.UNSURE
    assert machine.review({"fjord": None}, START + limit - 0.1, current=True) == []
    assert machine.review({"fjord": None}, START + limit, current=False) == []
    assert machine.of("fjord") is Show.UNSURE
    assert machine.review({"fjord": None}, START + limit, current=True) == ["fjord"]
    assert machine.of("fjord") is DOWN[policy]


@pytest.mark.parametrize("policy", ACTIVE)
def test_one_sign_after_a_silence_may_be_an_old_one(policy: Policy) -> None:
    machine = standing(policy, {"fjord": DOWN[policy]})
    assert machine.review({"fjord": 5000.0}, 5000.1, current=True) == []
    assert machine.review({"fjord": 5000.0}, 5059.0, current=True) == []
    assert machine.review({"fjord": 5000.0}, 5600.0, current=True) == []
    assert machine.review({"fjord": 5601.0}, 5601.0, current=True) == []
    assert machine.of("fjord") is DOWN[policy]
    assert machine.review({"fjord": 5602.0}, 5602.0, current=True) == ["fjord"]
    assert machine.of("fjord") is Show.AS_STATED


def test_a_cluster_that_is_gone_is_forgotten_with_its_silence() -> None:
    machine = standing(Policy.NOT_READY, {"fjord": Show.NOT_READY})
    assert machine.review({}, 5000.0, current=True) == []
    assert machine.of("fjord") is Show.AS_STATED
    assert machine.review({"fjord": 5000.0}, 5000.0, current=True) == []
    assert machine.of("fjord") is Show.UNSURE


OURS = [endpoint(1), endpoint(2, ready=False, terminating=True)]
THEIRS = [endpoint(3)]


@pytest.mark.parametrize(
    ("policy", "show", "present", "shown", "held"),
    [
        (Policy.NOT_READY, Show.AS_STATED, True, OURS, False),
        (Policy.NOT_READY, Show.UNSURE, True, None, True),
        (Policy.NOT_READY, Show.UNSURE, False, OURS, False),
        (
            Policy.NOT_READY,
            Show.NOT_READY,
            True,
            [endpoint(1, ready=False), endpoint(2, ready=False, terminating=True)],
            False,
        ),
        (Policy.WITHDRAW, Show.AS_STATED, True, OURS, False),
        (Policy.WITHDRAW, Show.UNSURE, True, OURS, False),
        (Policy.WITHDRAW, Show.UNSURE, False, None, False),
        (Policy.WITHDRAW, Show.WITHDRAWN, True, None, False),
        (Policy.WITHDRAW, Show.WITHDRAWN, False, None, False),
    ],
)
def test_what_is_written_beside_a_cluster_that_lives(
    policy: Policy, show: Show, shown: list[Endpoint] | None, *, present: bool, held: bool
) -> None:
    machine = standing(policy, {"fjord": show, "mesa": Show.AS_STATED})
    stated = {"fjord": OURS, "mesa": THEIRS}
    seen = machine.seen(stated, written(*(["fjord"] if present else []), "mesa"))
    wanted = {"mesa": THEIRS} if shown is None else {"fjord": shown, "mesa": THEIRS}
    assert seen.endpoints == wanted
    assert set(seen.held) == ({"fjord"} if held else set())
    assert stated == {"fjord": OURS, "mesa": THEIRS}


@pytest.mark.parametrize(
    ("others", "last", "goes"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"mesa": [endpoint(3)]}, False, True),
        ({"mesa": [endpoint(3, ready=False)]}, False, False),
        ({"mesa": [endpoint(3, ready=False)]}, True, True),
    ],
)
def test_the_last_ready_endpoints_are_withdrawn_only_if_wanted(
    others: dict[str, list[Endpoint]], *, last: bool, goes: bool
) -> None:
    shows = {"fjord": Show.WITHDRAWN, "mesa": Show.AS_STATED, "tundra": Show.WITHDRAWN}
    machine = standing(Policy.WITHDRAW, shows, last=last)
    stated = {"fjord": OURS, "tundra": [endpoint(9)], **others}
    seen = machine.seen(stated, written("fjord", "mesa", "tundra"))
    assert seen.endpoints == (others if goes else stated)


def test_objects_without_a_source_cluster_hold_nothing() -> None:
    machine = standing(Policy.NOT_READY, {"fjord": Show.UNSURE})
    assert machine.seen({}, [{"metadata": {"name": "x", "labels": {}}}]).held == set()


# ---- laws --------------------------------------------------------------------------------------

CLUSTERS = ("fjord", "mesa", "tundra")
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.1, 1.0, 30.0, 59.0, 60.0, 500.0, 600.0]),
        st.frozensets(st.sampled_from(CLUSTERS)),
    ),
    max_size=12,
)
ENDPOINTS = st.lists(
    st.builds(endpoint, st.integers(1, 9), ready=st.booleans(), terminating=st.booleans()),
    min_size=1,
    max_size=3,
)
VIEWS = st.dictionaries(st.sampled_from(CLUSTERS), ENDPOINTS)
PRESENT = st.frozensets(st.sampled_from(CLUSTERS))


def lived(policy: Policy, steps: list[tuple[float, frozenset[str]]], *, last: bool) -> Staleness:
    """A machine after some life."""
    machine = Staleness(rule(policy, last=last), START)
    now = START
    fresh_at: dict[str, float | None] = dict.fromkeys(CLUSTERS)
    machine.review(fresh_at, now, current=False)
    for seconds, heard in steps:
        now += seconds
        fresh_at |= dict.fromkeys(heard, now)
        machine.review(fresh_at, now, current=True)
    return machine


@given(
    st.sampled_from(ACTIVE), st.lists(st.tuples(st.floats(0.1, 700), st.booleans()), max_size=30)
)
def test_turned_down_only_after_the_silence_and_up_only_after_two_signs(
    policy: Policy, steps: list[tuple[float, bool]]
) -> None:
    machine = Staleness(rule(policy), START)
    limit = {Policy.NOT_READY: 60.0, Policy.WITHDRAW: 600.0}[policy]
    now, fresh_at, signs = START, None, 0
    machine.review({"fjord": None}, now, current=True)
    for seconds, heard in steps:
        now += seconds
        if heard:
            fresh_at, signs = now, signs + 1
        before = machine.of("fjord")
        turned = machine.review({"fjord": fresh_at}, now, current=True)
        after = machine.of("fjord")
        assert turned == (["fjord"] if after is not before else [])
        silence = now - (START if fresh_at is None else fresh_at)
        assert (after is DOWN[policy]) or silence < limit
        if silence >= limit:
            signs = 0
        elif after is Show.AS_STATED and before is not after:
            assert signs >= 2
        elif before is Show.AS_STATED:
            assert after is before


@given(STEPS, VIEWS, PRESENT)
def test_keep_shows_what_was_stated(
    steps: list[tuple[float, frozenset[str]]], view: View, present: frozenset[str]
) -> None:
    seen = lived(Policy.KEEP, steps, last=True).seen(view, written(*present))
    assert (seen.endpoints, set(seen.held)) == (view, set())


@given(STEPS, VIEWS, PRESENT)
def test_not_ready_loses_no_endpoint_and_changes_nothing_but_two_conditions(
    steps: list[tuple[float, frozenset[str]]], view: View, present: frozenset[str]
) -> None:
    machine = lived(Policy.NOT_READY, steps, last=False)
    seen = machine.seen(view, written(*present))
    assert {*seen.endpoints, *seen.held} >= {*view}
    assert {*seen.endpoints}.isdisjoint(seen.held)
    for cluster, shown in seen.endpoints.items():
        if machine.of(cluster) is not Show.NOT_READY:
            assert shown == view[cluster]
            continue
        assert not any(item.ready or item.serving for item in shown)
        for item, stated in zip(shown, view[cluster], strict=True):
            assert replace(item, ready=stated.ready, serving=stated.serving) == stated


@given(steps=STEPS, view=VIEWS, present=PRESENT, last=st.booleans())
def test_withdrawing_never_takes_the_last_ready_endpoint_unless_wanted(
    steps: list[tuple[float, frozenset[str]]], view: View, present: frozenset[str], *, last: bool
) -> None:
    machine = lived(Policy.WITHDRAW, steps, last=last)
    seen = machine.seen(view, written(*present))
    assert set(seen.held) == set()
    assert all(view[cluster] == shown for cluster, shown in seen.endpoints.items())
    gone = view.keys() - seen.endpoints.keys()
    for cluster in gone:
        unsure = machine.of(cluster) is Show.UNSURE and cluster not in present
        assert unsure or machine.of(cluster) is Show.WITHDRAWN
    if not last and gone:
        assert any(item.ready for shown in seen.endpoints.values() for item in shown)
