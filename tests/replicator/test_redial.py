"""When a peer is dialled again, and when a link is renewed."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from replicator.redial import Redial, renewal_after

AGENTS = 50


@pytest.mark.parametrize(
    ("seconds", "timeout"), [(0, 1.0), (300, 3.0), (600, 5.0), (86400, 5.0), (-5, 1.0)]
)
def test_a_connection_may_take_longer_the_longer_there_is_none(
    seconds: float, timeout: float
) -> None:
    assert Redial(100.0).timeout(100.0 + seconds) == timeout


def test_a_link_makes_it_all_begin_anew() -> None:
    redial = Redial(0.0)
    for _ in range(3):
        redial.refused(0.5, None)
    redial.linked(900.0)
    assert redial.timeout(900.0) == 1.0
    assert redial.refused(0.999, None) < 2.0


def test_without_an_answer_every_second_give_or_take_half() -> None:
    assert (Redial.unanswered(0.0), Redial.unanswered(0.5)) == (0.5, 1.0)
    assert Redial.unanswered(0.999) < 1.5
    assert 0 <= Redial.lost(0.0) <= Redial.lost(0.999) < 0.25


def test_refusals_are_answered_by_a_random_time_up_to_a_bound_that_doubles_to_a_minute() -> None:
    redial = Redial(0.0)
    bounds = [redial.refused(1.0, None) for _ in range(8)]
    assert bounds == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert redial.refused(0.0, None) == 1.0


def test_what_the_peer_asked_for_is_the_least_and_nobody_is_believed_to_want_for_ever() -> None:
    redial = Redial(0.0)
    assert redial.refused(0.0, 10.0) == 10.0
    assert redial.refused(0.5, 10.0) == 15.0
    assert redial.refused(1.0, 1.0) == 8.0
    assert redial.refused(0.0, 1e9) == 300.0


@pytest.mark.parametrize(
    ("valid", "least", "most"),
    [(None, 3060, 3420), (86400.0, 3060, 3420), (1000.0, 850, 950), (10.0, 30, 30), (-5.0, 30, 30)],
)
def test_a_link_is_renewed_before_the_hour_and_before_a_certificate_ends(
    valid: float | None, least: float, most: float
) -> None:
    assert renewal_after(valid, 0.0) == pytest.approx(least)
    assert renewal_after(valid, 1.0) == pytest.approx(most)


@pytest.mark.parametrize(("refused", "asked"), [(False, None), (True, None), (True, 10.0)])
def test_p42_many_agents_do_not_try_again_in_step_after_a_heal(
    asked: float | None,
    refused: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """All fifty lose the same peer at one instant; it heals ten minutes later."""
    heal = 600.0
    firsts: list[float] = []
    tries: list[float] = []
    for number in range(AGENTS):
        dice, redial, at = random.Random(number), Redial(0.0), 0.0
        at += redial.lost(dice.random())
        while at < heal:
            tries.append(at)
            share = dice.random()
            at += redial.refused(share, asked) if refused else redial.unanswered(share)
        firsts.append(at - heal)
    spread = 60.0 if refused else 1.5
    assert max(firsts) <= spread
    tenths = Counter(int(first / spread * 10) for first in firsts)
    assert max(tenths.values()) <= 15, "no tenth of the wait holds a third of all"
    assert len(tenths) >= 6
    per_agent = len(tries) / AGENTS
    assert per_agent < (40 if refused else 620), "the rate is bounded"
    volley = Counter(int(at * 20) for at in tries if at >= 0.5)
    assert max(volley.values()) <= 15, "nor do they fall into step meanwhile"
