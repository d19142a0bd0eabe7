"""Whom to take an origin from, and for how long to trust that choice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdt import Version
from replicator.sources import STALL_SECONDS, Candidate, Supply, ahead, best, keeps

OLD, NEW = Version(1, 5), Version(1, 9)


def candidate(
    number: int, version: Version = OLD, *, direct: bool = False, rtt: int = 0
) -> Candidate:
    """A peer that could serve an origin."""
    return Candidate(number, direct, version, rtt, f"c{number}")


@pytest.mark.parametrize(
    ("candidates", "chosen"),
    [
        ([], None),
        ([candidate(1)], 1),
        ([candidate(1, NEW), candidate(2, direct=True)], 2),
        ([candidate(1), candidate(2, NEW)], 2),
        ([candidate(1, Version(1, 99)), candidate(2, Version(2, 1))], 2),
        ([candidate(1, rtt=9), candidate(2, rtt=3)], 2),
        ([candidate(2), candidate(1)], 1),
    ],
)
def test_the_origin_is_best_then_the_freshest_then_the_nearest(
    candidates: list[Candidate], chosen: int | None
) -> None:
    assert best(candidates, None) == chosen
    assert best(candidates[::-1], None) == chosen


def test_who_is_to_be_avoided_is_taken_only_when_there_is_no_other() -> None:
    assert best([candidate(1, NEW, direct=True), candidate(2)], 1) == 2
    assert best([candidate(1)], 1) == 1


def test_an_origin_is_taken_last_from_who_takes_it_from_us() -> None:
    nearer = replace(candidate(1, rtt=1), takes=True)
    assert best([nearer, candidate(2, rtt=9)], None) == 2
    assert best([nearer], None) == 1
    assert best([replace(nearer, version=NEW), candidate(2)], None) == 1, "it has it from elsewhere"


def test_a_source_stays_unless_the_origin_itself_can_take_over() -> None:
    relay, better, origin = candidate(1), candidate(2, NEW), candidate(3, direct=True)
    assert not keeps(None, [relay], None)
    assert keeps(relay, [relay, better], None)
    assert not keeps(relay, [relay, origin], None)
    assert keeps(origin, [relay, origin], None)
    assert not keeps(origin, [relay, origin], 3)
    assert keeps(relay, [relay, origin], 3)


def test_another_peer_is_ahead_when_it_advertises_more_than_is_committed() -> None:
    assert ahead(OLD, [candidate(1), candidate(2, NEW)], 1)
    assert not ahead(OLD, [candidate(1, NEW), candidate(2)], 1)
    assert not ahead(OLD, [], 1)


def test_a_source_is_overdue_once_another_was_ahead_for_two_heartbeats() -> None:
    supply = Supply(progress_at=10.0)
    assert not supply.overdue(1000.0, behind=False)
    # The origin was idle for long: the wait begins when somebody is seen to have more.
    assert not supply.overdue(1000.0, behind=True)
    assert not supply.overdue(1000.0 + STALL_SECONDS - 0.1, behind=True)
    assert supply.overdue(1000.0 + STALL_SECONDS, behind=True)
    assert not supply.overdue(1003.0, behind=False)
    assert not supply.overdue(1004.0, behind=True)


def test_progress_gives_a_source_more_time() -> None:
    supply = Supply()
    supply.overdue(5.0, behind=True)
    supply.progressed(6.5)
    assert not supply.overdue(8.0, behind=True)
    assert supply.overdue(8.5, behind=True)


def test_patience_doubles_with_each_stall_until_something_is_committed() -> None:
    # Chunks of a slow link take longer than two heartbeats: sources that were changed for that
    # reason alone would be changed for ever.
    supply = Supply()
    waits = []
    for _ in range(8):
        waits.append(supply.patience)
        supply.stalled(1, 0.0)
    assert waits == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    supply.committed(2, 100.0)
    assert supply.patience == STALL_SECONDS


def test_who_stalled_is_avoided_for_a_while() -> None:
    supply = Supply()
    assert supply.avoided(0.0) is None
    supply.stalled(1, 10.0)
    assert supply.avoided(10.0) == 1
    assert supply.avoided(11.9) == 1
    assert supply.avoided(12.0) is None


def test_who_was_shunned_is_forgiven_once() -> None:
    supply = Supply()
    assert not supply.forgiven(0.0)
    supply.stalled(1, 0.0)
    assert not supply.forgiven(1.9)
    assert supply.forgiven(2.0)
    assert not supply.forgiven(2.0)


def test_after_the_first_failure_another_try_follows_at_once_then_ever_later() -> None:
    supply = Supply()
    now = failed_at = 0.0
    waits = []
    for _ in range(10):
        failed_at = now
        supply.failed(1, now)
        waits.append(max(0.0, supply.retry_at - now))
        now = max(now, supply.retry_at)
    assert waits == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 32.0, 32.0, 32.0]
    assert supply.avoided(failed_at + 59.9) == 1
    assert supply.avoided(failed_at + 60.0) is None


def test_who_failed_stays_shunned_when_another_delivers_and_is_cleared_when_it_does_itself() -> (
    None
):
    supply = Supply()
    supply.failed(1, 0.0)
    supply.committed(2, 0.5)
    assert (supply.avoided(1.0), supply.failures) == (1, 1)
    supply.committed(2, 2.0)
    assert (supply.avoided(2.0), supply.failures) == (None, 0)
    supply.failed(1, 3.0)
    supply.committed(1, 3.1)
    assert (supply.avoided(3.1), supply.failures) == (None, 0)
