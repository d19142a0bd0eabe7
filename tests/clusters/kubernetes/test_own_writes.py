"""What we wrote and the watch has not shown yet."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.kubernetes.objects import name_of
from clusters.kubernetes.own_writes import OwnWrites
from clusters.kubernetes.watch_decoder import ObjectEvent, Op

NAME = ("shop", "one")


def manifest(version: str, uid: str = "u1") -> dict[str, Any]:
    metadata = {"namespace": "shop", "name": "one", "uid": uid, "resourceVersion": version}
    return {"metadata": metadata}


def event(version: str, uid: str = "u1", op: Op = Op.MODIFIED) -> ObjectEvent:
    return ObjectEvent(op, manifest(version, uid), version)


def written(version: str) -> OwnWrites:
    writes = OwnWrites()
    writes.begin(NAME, None)
    assert writes.wrote(manifest(version), 0.0)
    return writes


def test_older_states_are_hidden_until_ours_is_shown() -> None:
    writes = written("7")

    assert writes.hides(event("5"), 1.0)
    assert writes.hides(event("6"), 1.0)
    assert not writes.hides(event("7"), 1.0)
    assert not writes.hides(event("8"), 1.0)


def test_other_objects_are_not_hidden() -> None:
    other = {"metadata": {"namespace": "shop", "name": "two"}}

    assert not written("7").hides(ObjectEvent(Op.ADDED, other, "5"), 1.0)


def test_a_predecessors_deletion_is_hidden() -> None:
    assert written("7").hides(event("6", uid="u0", op=Op.DELETED), 1.0)


def test_a_deletion_of_our_object_by_others_is_shown() -> None:
    assert not written("7").hides(event("9", op=Op.DELETED), 1.0)


def test_older_states_of_what_we_deleted_are_hidden_until_it_is_gone() -> None:
    writes = OwnWrites()
    writes.begin(NAME, None)
    assert writes.deleted(manifest("7"), 0.0)

    assert writes.hides(event("6"), 1.0)
    assert not writes.hides(event("8", op=Op.DELETED), 1.0)
    assert not writes.hides(event("9", uid="u2", op=Op.ADDED), 1.0)


def test_a_watch_that_is_faster_than_the_answer_is_not_waited_for() -> None:
    writes = OwnWrites()
    writes.begin(NAME, None)
    assert not writes.hides(event("7"), 0.0)
    assert not writes.hides(event("8"), 0.0)

    assert not writes.wrote(manifest("7"), 0.0)
    assert not writes.hides(event("9"), 0.0)


def test_a_deletion_that_is_seen_before_its_answer_is_not_waited_for() -> None:
    writes = OwnWrites()
    writes.begin(NAME, None)
    writes.hides(event("8", op=Op.DELETED), 0.0)

    assert not writes.deleted(manifest("7"), 0.0)


def test_a_list_ends_all_hiding() -> None:
    writes = written("7")
    writes.listed()
    assert not writes.hides(event("6"), 1.0)


def test_a_list_during_a_write_leaves_it_to_the_watch() -> None:
    writes = OwnWrites()
    writes.begin(NAME, None)
    writes.listed()

    assert not writes.wrote(manifest("7"), 0.0)


def test_a_write_that_changed_nothing_is_not_waited_for() -> None:
    writes = OwnWrites()
    writes.begin(NAME, "7")

    assert not writes.wrote(manifest("7"), 0.0)
    assert not writes.hides(event("8"), 1.0)


def test_a_refused_write_leaves_what_was_awaited() -> None:
    writes = written("7")
    writes.begin(NAME, "7")
    writes.settled(NAME)

    assert writes.hides(event("6"), 1.0)
    assert not writes.hides(event("7"), 1.0)


def test_an_answer_nobody_waits_for_is_ignored() -> None:
    assert not OwnWrites().wrote(manifest("7"), 0.0)


def test_hiding_ends_by_itself() -> None:
    writes = written("7")

    assert writes.hides(event("6"), 30.0)
    assert not writes.hides(event("6"), 30.1)


@pytest.mark.parametrize("broken", [{}, {"metadata": None}])
def test_an_object_without_a_name_has_one_of_its_own(broken: dict[str, Any]) -> None:
    assert name_of(broken) == ("None", "None")
    assert not OwnWrites().hides(ObjectEvent(Op.ADDED, broken, None), 0.0)
