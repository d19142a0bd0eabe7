"""Ages, offsets and percentiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.freshness import (
    ClockFilter,
    Exchange,
    Latencies,
    State,
    exchange,
    milliseconds,
    state_of,
)


@pytest.mark.parametrize(
    ("age", "direct", "state"),
    [
        (None, True, State.UNKNOWN),
        (0.0, True, State.FRESH),
        (4.9, True, State.FRESH),
        (5.0, True, State.LAGGING),
        (24.9, False, State.FRESH),
        (25.0, False, State.LAGGING),
        (59.9, True, State.LAGGING),
        (60.0, True, State.STALE),
        (60.0, False, State.STALE),
    ],
)
def test_an_origin_is_fresh_lagging_or_stale_by_its_age(
    age: float | None, state: State, *, direct: bool
) -> None:
    assert state_of(age, direct=direct, stale_after=60.0) is state


@given(
    there=st.integers(0, 10**10),
    back=st.integers(0, 10**10),
    held=st.integers(0, 10**10),
    offset=st.integers(-(10**13), 10**13),
)
def test_four_timestamps_give_the_round_trip_and_the_offset_within_half_of_it(
    there: int, back: int, held: int, offset: int
) -> None:
    sent = 10**18
    received_there = sent + there + offset
    sent_back = received_there + held
    received = sent + there + held + back
    found = exchange(sent, received_there, sent_back, received)
    assert found.rtt_ns == there + back
    assert abs(found.offset_ns - offset) * 2 <= there + back + 1


def test_a_clock_that_stepped_back_between_gives_no_negative_round_trip() -> None:
    assert exchange(1000, 2000, 2000, 10).rtt_ns == 0


def test_the_best_of_the_last_eight_exchanges_counts() -> None:
    clock = ClockFilter()
    assert clock.best() is None
    clock.add(Exchange(1, 100))
    for rtt in (9, 5, 7, 8, 6, 10, 11):
        clock.add(Exchange(rtt, rtt))
    assert clock.best() == Exchange(1, 100)
    clock.add(Exchange(20, 20))
    assert clock.best() == Exchange(5, 5)


def test_percentiles_are_of_the_last_thousand_and_the_count_of_all() -> None:
    times = Latencies()
    assert times.summary() == {"p50": None, "p95": None, "p99": None, "max": None, "count": 0}
    times.add(9.0)
    for number in range(1000):
        times.add(number / 1000)
    assert times.summary() == {
        "p50": 500.0,
        "p95": 950.0,
        "p99": 990.0,
        "max": 999.0,
        "count": 1001,
    }


def test_one_measurement_is_every_percentile() -> None:
    times = Latencies()
    times.add(0.25)
    assert set(times.summary().values()) == {250.0, 1}


def test_nanoseconds_are_shown_as_milliseconds() -> None:
    assert milliseconds(1_234_567) == 1.235
