"""How busy an agent is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replicator.load import FULL_QUEUES, SHED_FROM, SHED_UNTIL, Load


def after(seconds: float, cpu: float, waiting: int, load: Load | None = None) -> Load:
    """The load after so many seconds of one kind."""
    load = load or Load()
    for tenth in range(round(seconds * 10) + 1):
        load.note(tenth / 10, cpu * tenth / 10, waiting)
    return load


def test_an_idle_agent_has_no_load() -> None:
    load = after(60, 0.0, 0)
    assert load.score == 0
    assert not load.shedding


def test_a_busy_core_alone_is_six_tenths_and_full_queues_four() -> None:
    assert round(after(60, 1.0, 0).score) == 60
    assert round(after(60, 0.0, FULL_QUEUES).score) == 40
    assert round(after(60, 0.5, FULL_QUEUES // 2).score) == 50


def test_more_than_one_core_and_more_than_full_queues_are_a_hundred() -> None:
    load = after(60, 3.0, 5 * FULL_QUEUES)
    assert round(load.score) == 100
    assert load.shedding


def test_a_moment_of_work_turns_nobody_away() -> None:
    assert not after(1, 1.0, FULL_QUEUES).shedding
    assert after(20, 1.0, FULL_QUEUES).shedding


def test_shedding_goes_on_until_the_load_is_well_below() -> None:
    load = after(60, 1.0, FULL_QUEUES)
    turned = []
    for tenth in range(1, 600):
        now = 60 + tenth / 10
        load.note(now, 60 + tenth * 0.05, FULL_QUEUES)
        if not load.shedding:
            turned.append(load.score)
    assert not turned, "0.6 x 50 + 0.4 x 100 is as much as the lower bound"
    for tenth in range(600, 700):
        load.note(60 + tenth / 10, 90, 0)
        turned += [] if load.shedding else [load.score]
    assert SHED_UNTIL - 3 < turned[0] < SHED_UNTIL < SHED_FROM


def test_readings_of_one_instant_and_clocks_that_go_back_are_left_out() -> None:
    load = Load()
    load.note(10.0, 1.0, FULL_QUEUES)
    load.note(10.0, 5.0, FULL_QUEUES)
    load.note(9.0, 5.0, FULL_QUEUES)
    assert load.score == 0


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 10**6)), max_size=20)
)
def test_the_score_is_always_from_0_to_100(readings: list[tuple[float, float, int]]) -> None:
    load = Load()
    for now, cpu, waiting in readings:
        load.note(now, cpu, waiting)
        assert 0 <= load.score <= 100.0001
