"""Work that does not come to an end is told, and only that."""

from __future__ import annotations

from replicator.watchdog import Watchdog


def test_a_step_without_progress_is_stuck_until_the_work_ends_well() -> None:
    dog: Watchdog[str] = Watchdog(60.0)
    dog.progress("cart", 0.0)
    dog.progress("mail", 30.0)
    assert dog.overdue(59.9) == []
    assert dog.overdue(60.0) == ["cart"]
    assert dog.stuck(70.0) == {"cart": 70.0}
    dog.ended("cart", well=False)
    assert dog.stuck(80.0) == {"cart": 80.0}, "it was only given up"
    dog.progress("cart", 85.0)
    dog.ended("cart", well=True)
    assert dog.stuck(90.0) == {}
    assert dog.fired == 1


def test_progress_is_no_stall_however_long_the_work_takes() -> None:
    dog: Watchdog[str] = Watchdog(60.0)
    for now in range(0, 600, 50):
        dog.progress("cart", now)
        assert dog.overdue(now + 49) == []
    dog.ended("cart", well=True)
    assert dog.overdue(10_000.0) == []


def test_what_will_not_even_be_given_up_is_found_again() -> None:
    dog: Watchdog[str] = Watchdog(60.0)
    dog.progress("cart", 0.0)
    assert dog.overdue(60.0) == ["cart"]
    assert dog.overdue(100.0) == []
    assert dog.overdue(120.0) == ["cart"]
    assert dog.stuck(120.0) == {"cart": 120.0}
    assert dog.fired == 2
