"""When the API server may be asked again (kubernetes.md W13)."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from clusters.kubernetes.back_off import BackOff
from clusters.kubernetes.settings import WatchSettings

SETTINGS = WatchSettings()


class Highest(Random):
    """Always draws the most."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


def make(rng: Random | None = None) -> BackOff:
    return BackOff(SETTINGS, rng or Highest())


def outage(back_off: BackOff, start: float, rounds: int) -> list[float]:
    """Fail again and again, each attempt as early as allowed; returns the waits."""
    waits, now = [], start
    for _ in range(rounds):
        back_off.failed(now, began=now)
        waits.append(back_off.not_before - now)
        now = back_off.not_before
    return waits


def test_nothing_failed_means_no_wait() -> None:
    assert make().not_before == 0.0
    assert make().ceiling == 0.0


def test_the_ceiling_doubles_from_one_second_to_sixty() -> None:
    assert outage(make(), 0.0, 8) == [1, 2, 4, 8, 16, 32, 60, 60]


@given(st.integers(0, 2**32), st.integers(1, 3000))
def test_waits_are_drawn_between_zero_and_the_ceiling(seed: int, rounds: int) -> None:
    waits = outage(make(Random(seed)), 5.0, min(rounds, 40))

    for number, wait in enumerate(waits):
        assert 0.0 <= wait <= min(60.0, 2.0**number) + 1e-6


def test_fifty_watchers_in_one_outage_raise_it_once_a_round() -> None:
    back_off = make()
    for _ in range(50):
        back_off.failed(10.0, began=9.0)

    assert back_off.ceiling == 1.0
    assert back_off.not_before == 11.0


def test_the_server_may_ask_for_more_but_not_for_ever() -> None:
    back_off = make()
    back_off.failed(0.0, began=0.0, at_least=7.0)
    assert back_off.not_before == 8.0

    back_off.failed(0.0, began=-1.0, at_least=30.0)
    assert back_off.not_before == 30.0

    back_off.failed(40.0, began=40.0, at_least=1e9)
    assert back_off.not_before == 40.0 + SETTINGS.retry_after_most + 2.0


def test_two_minutes_of_health_forget_earlier_failures() -> None:
    back_off = make()
    outage(back_off, 0.0, 6)
    back_off.succeeded(100.0)
    back_off.succeeded(200.0)
    back_off.failed(219.0, began=219.0)
    assert back_off.ceiling == 60.0

    back_off.succeeded(300.0)
    back_off.failed(420.0, began=420.0)
    assert back_off.ceiling == 1.0


def test_a_long_watch_that_breaks_after_recovery_is_a_new_failure() -> None:
    back_off = make()
    back_off.failed(50.0, began=50.0)
    back_off.succeeded(52.0)

    back_off.failed(100.0, began=0.0)

    assert back_off.not_before == 102.0
