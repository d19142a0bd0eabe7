"""What is stored of others is not written anew before they were heard."""

from __future__ import annotations

from replicator.confirmation import STATIC_SECONDS, Confirmation


def test_a_stored_cluster_is_held_until_it_is_heard() -> None:
    machine = Confirmation(100.0, ["fjord", "tundra"])
    assert machine.pending
    assert machine.unconfirmed == {"fjord", "tundra"}
    assert machine.review({"fjord": None, "tundra": None, "delta": 100.5}, 101.0) == []
    assert machine.review({"fjord": 101.5, "tundra": None}, 102.0) == ["fjord"]
    assert machine.unconfirmed == {"tundra"}
    assert machine.review({"fjord": 102.5, "tundra": None}, 103.0) == []
    assert machine.doubtful == frozenset()
    assert machine.review({"fjord": 102.5, "tundra": 103.5}, 104.0) == ["tundra"]
    assert not machine.pending


def test_after_ten_seconds_it_is_written_in_doubt_until_it_is_heard() -> None:
    machine = Confirmation(100.0, ["fjord"])
    assert machine.review({"fjord": None}, 100.0 + STATIC_SECONDS - 0.1) == []
    assert machine.review({"fjord": None}, 100.0 + STATIC_SECONDS) == ["fjord"]
    assert machine.unconfirmed == frozenset()
    assert machine.doubtful == {"fjord"}
    assert machine.pending
    assert machine.review({"fjord": None}, 200.0) == []
    assert machine.review({"fjord": 201.0}, 201.0) == ["fjord"]
    assert machine.doubtful == frozenset()
    assert machine.review({"fjord": 202.0}, 202.0) == []


def test_a_forgotten_cluster_is_waited_for_no_longer() -> None:
    machine = Confirmation(100.0, ["fjord"])
    assert machine.review({}, 101.0) == ["fjord"]
    assert (machine.unconfirmed, machine.pending) == (frozenset(), False)


def test_nothing_stored_nothing_held() -> None:
    machine = Confirmation(100.0, [])
    assert not machine.pending
    assert machine.review({"fjord": None}, 101.0) == []
    assert machine.doubtful == frozenset()
