"""Whose heads wait because of a wrong clock, and when it is our own that is wrong."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdt import Origin
from replicator.skew import LIMIT_NS, Complaints, Skews, ahead_ns, most_find_ahead

FJORD, MESA, TUNDRA = Origin("fjord"), Origin("mesa"), Origin("tundra")
WALL = 1_764_655_200_000_000_000
HOUR = 3600 * 10**9


def seen(**hours_ahead: float) -> Skews:
    """Origins with stamps so many hours ahead of :data:`WALL`."""
    skews = Skews()
    for cluster, hours in hours_ahead.items():
        skews.saw(Origin(cluster), WALL + int(hours * HOUR))
    return skews


def test_an_origin_two_hours_ahead_waits_and_nobody_else() -> None:
    skews = seen(fjord=2, mesa=0, tundra=-3)
    assert skews.held_back(WALL) == {FJORD}
    assert (skews.ahead(FJORD, WALL), skews.ahead(TUNDRA, WALL)) == (2 * HOUR, 0)
    assert skews.ahead(Origin("delta"), WALL) == 0


def test_an_hour_exactly_is_taken() -> None:
    skews = seen(fjord=1, mesa=0)
    assert skews.held_back(WALL) == set()
    assert skews.held_back(WALL - 1) == {FJORD}
    assert LIMIT_NS == HOUR


def test_a_clock_that_finds_most_others_ahead_is_wrong_itself() -> None:
    skews = seen(fjord=2, mesa=2, tundra=0)
    assert skews.own_clock_is_wrong(WALL)
    assert skews.held_back(WALL) == set()
    assert seen(fjord=2).own_clock_is_wrong(WALL)
    assert not seen(fjord=2, mesa=0).own_clock_is_wrong(WALL)
    assert not Skews().own_clock_is_wrong(WALL)


def test_a_new_epoch_with_sane_stamps_and_a_forgotten_origin_wait_no_longer() -> None:
    skews = seen(fjord=2, mesa=0, tundra=0)
    skews.saw(FJORD, WALL)
    assert skews.held_back(WALL) == set()
    skews = seen(fjord=2, mesa=0, tundra=0)
    skews.keep({MESA, TUNDRA})
    assert skews.ahead(FJORD, WALL) == 0
    assert skews.held_back(WALL) == set()


@given(
    stamps=st.dictionaries(st.sampled_from("abcdefg"), st.integers(-5 * HOUR, 5 * HOUR)),
    step=st.integers(-9 * HOUR, 9 * HOUR),
)
def test_only_origins_too_far_ahead_wait_and_never_most_of_them(
    stamps: dict[str, int], step: int
) -> None:
    skews = Skews()
    for cluster, offset in stamps.items():
        skews.saw(Origin(cluster), WALL + offset)
    held = skews.held_back(WALL + step)
    assert all(ahead_ns(WALL + stamps[origin.cluster], WALL + step) > HOUR for origin in held)
    assert 2 * len(held) <= len(stamps)


def test_complaints_are_news_once_until_they_change_or_end() -> None:
    complaints = Complaints()
    assert complaints.say(FJORD, "mesa", 2 * HOUR)
    assert not complaints.say(FJORD, "mesa", 2 * HOUR + 30 * 10**9)
    assert complaints.say(FJORD, "mesa", 3 * HOUR)
    assert complaints.say(FJORD, "tundra", 3 * HOUR)
    assert complaints.about(FJORD) == {"mesa": 3 * HOUR, "tundra": 3 * HOUR}
    assert complaints.about(MESA) == {}
    assert complaints.say(FJORD, "mesa", 0)
    assert not complaints.say(FJORD, "mesa", 0)
    assert complaints.about(FJORD) == {"tundra": 3 * HOUR}


def test_most_of_the_connected_peers_must_agree() -> None:
    ahead, level = WALL - 2 * HOUR, WALL
    assert most_find_ahead(WALL, [ahead])
    assert most_find_ahead(WALL, [ahead, ahead, level])
    assert not most_find_ahead(WALL, [ahead, level])
    assert not most_find_ahead(WALL, [ahead, None])
    assert not most_find_ahead(WALL, [WALL - LIMIT_NS])
    assert not most_find_ahead(WALL, [])
