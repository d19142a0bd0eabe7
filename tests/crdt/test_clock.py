"""The stamp clock under wall clocks of every temper."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdt import StampClock, StampError
from crdt.clock import CEILING_STEP_NS
from crdt.stamp import MAX_NANOTIME

HOUR = 3_600_000_000_000
NOW = 1_764_655_200_000_000_000

walls = st.lists(
    st.integers(-HOUR, MAX_NANOTIME)
    | st.integers(NOW - HOUR, NOW + HOUR)
    | st.integers(NOW, NOW + 3)
    | st.integers(MAX_NANOTIME - 3, MAX_NANOTIME + 3),
    max_size=30,
)


def issue(clock: StampClock, readings: list[int]) -> list[int]:
    """What the clock issues until its readings, or time itself, end."""
    issued = []
    for wall in readings:
        try:
            issued.append(clock.next(wall))
        except StampError:
            assert max(wall, clock.last + 1) > MAX_NANOTIME
    return issued


@given(walls)
def test_stamps_rise_strictly_for_any_wall_clock(readings: list[int]) -> None:
    issued = issue(StampClock(), readings)
    assert all(before < after for before, after in pairwise(issued))
    assert all(0 < stamp <= MAX_NANOTIME for stamp in issued)


@given(walls)
def test_every_stamp_is_the_wall_or_one_more_than_the_last(readings: list[int]) -> None:
    clock = StampClock()
    for wall in readings:
        last = clock.last
        for stamp in issue(clock, [wall]):
            assert stamp == max(last + 1, wall) == clock.last


@given(walls)
def test_no_stamp_is_above_the_ceiling(readings: list[int]) -> None:
    clock = StampClock()
    for wall in readings:
        before = clock.ceiling
        for stamp in issue(clock, [wall]):
            assert stamp <= clock.ceiling <= min(stamp + CEILING_STEP_NS, MAX_NANOTIME)
        assert clock.ceiling >= before


@given(walls)
def test_the_ceiling_moves_only_when_a_stamp_needs_it(readings: list[int]) -> None:
    clock = StampClock()
    for wall in readings:
        before = clock.ceiling
        if all(stamp <= before for stamp in issue(clock, [wall])):
            assert clock.ceiling == before


@given(walls, walls)
def test_a_restart_from_the_durable_ceiling_never_reuses_a_stamp(
    first: list[int], second: list[int]
) -> None:
    clock = StampClock()
    issued = issue(clock, first)
    later = issue(StampClock(ceiling=clock.ceiling), second)
    assert all(stamp > clock.last for stamp in later)
    assert not set(issued) & set(later)


@given(walls, walls)
def test_a_clean_stop_goes_on_from_the_exact_stamp(first: list[int], second: list[int]) -> None:
    clock = StampClock()
    issue(clock, first)
    again = StampClock(last=clock.last)
    assert again.last == again.ceiling == clock.last
    assert issue(again, second) == issue(clock, second)


def test_a_wall_set_back_a_day_still_yields_newer_stamps() -> None:
    clock = StampClock()
    first = clock.next(NOW)
    assert clock.next(NOW - 24 * HOUR) == first + 1


def test_a_frozen_wall_counts_on() -> None:
    clock = StampClock()
    assert [clock.next(NOW) for _ in range(3)] == [NOW, NOW + 1, NOW + 2]


def test_the_year_2262_is_the_end_and_changes_nothing() -> None:
    clock = StampClock(last=MAX_NANOTIME - 1)
    assert clock.next(0) == clock.ceiling == MAX_NANOTIME
    for wall in (0, MAX_NANOTIME, MAX_NANOTIME + 1):
        with pytest.raises(StampError):
            clock.next(wall)
    assert clock.last == clock.ceiling == MAX_NANOTIME


def test_a_wall_beyond_2262_spoils_nothing() -> None:
    clock = StampClock()
    clock.next(NOW)
    with pytest.raises(StampError):
        clock.next(MAX_NANOTIME + 1)
    assert clock.next(NOW + 5) == NOW + 5
