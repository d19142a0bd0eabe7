"""Conditions of ServiceExports and ServiceImports, and how a status is brought to say them."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.model import ChangeOp, Manifest, Standing
from clusters.multicluster.conditions import Condition, brought_to, instant
from clusters.multicluster.merge import merge
from clusters.multicluster.service_export import export_change
from tests.clusters.makers import object_of
from tests.clusters.multicluster.bed import GRPC, conditions, export

NOW, LATER = "2026-03-01T11:00:00Z", "2026-03-01T12:00:00Z"
READY = Condition("Ready", status=True, reason="Exported")


def test_a_time_is_written_as_kubernetes_does() -> None:
    assert instant(1_772_362_800_999_999_999) == NOW


def test_the_time_of_a_transition_changes_only_with_the_status() -> None:
    first = brought_to(None, [READY], now=NOW, generation=1)
    assert first == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Exported",
            "message": "",
            "observedGeneration": 1,
            "lastTransitionTime": NOW,
        }
    ]
    assert brought_to(first, [READY], now=LATER, generation=1) == first
    reworded = Condition("Ready", status=True, reason="Ready", message="x")
    (other,) = brought_to(first, [reworded], now=LATER, generation=2)
    assert (other["lastTransitionTime"], other["reason"]) == (NOW, "Ready")
    (gone,) = brought_to(
        first, [Condition("Ready", status=False, reason="Failed")], now=LATER, generation=1
    )
    assert (gone["lastTransitionTime"], gone["status"]) == (LATER, "False")


@pytest.mark.parametrize(
    "observed",
    [
        "x",
        [7, {"type": "Ready", "status": "True"}],
        [{"type": "Ready", "status": "True", "lastTransitionTime": 7}],
    ],
)
def test_a_spoiled_status_is_written_anew(observed: Any) -> None:
    (found,) = brought_to(observed, [READY], now=NOW, generation=None)
    assert found == {
        "type": "Ready",
        "status": "True",
        "reason": "Exported",
        "message": "",
        "lastTransitionTime": NOW,
    }


def test_conditions_of_others_are_left_alone_and_messages_bounded() -> None:
    foreign = {"type": "team.example/Reviewed", "status": "True", "lastTransitionTime": NOW}
    long = Condition("Ready", status=False, reason="Failed", message="x" * 40_000)
    other, ours = brought_to([foreign], [long], now=NOW, generation=1)
    assert other == foreign
    assert len(ours["message"]) == 32768


def exported(**fields: Any) -> Manifest:
    return object_of("ServiceExport", "cart", metadata={"generation": 1}, **fields)


def told(standing: Standing, exports: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    change = export_change(exported(), standing, merge(exports), cluster="fjord", now=NOW)
    assert change is not None
    assert (change.op, change.subresource) == (ChangeOp.UPDATE, "status")
    return {
        name: (item["status"], item["reason"], item["message"])
        for name, item in conditions(change.manifest).items()
    }


def test_a_good_export_is_valid_ready_and_without_conflict() -> None:
    assert told(Standing.VALID, {"fjord": export(1), "mesa": export(2)}) == {
        "Valid": ("True", "Valid", ""),
        "Ready": ("True", "Exported", ""),
        "Conflict": ("False", "NoConflicts", ""),
    }


@pytest.mark.parametrize(
    ("standing", "why"),
    [
        (Standing.NO_SERVICE, "there is no Service of this name in this namespace"),
        (Standing.INVALID_TYPE, "a Service of type ExternalName cannot be exported"),
    ],
)
def test_an_export_of_nothing_is_not_valid_whatever_others_export(
    standing: Standing, why: str
) -> None:
    others = {"mesa": export(1), "tundra": export(2, ports=[GRPC])}
    assert told(standing, others) == {
        "Valid": ("False", standing.value, why),
        "Ready": ("False", "Failed", why),
        "Conflict": ("False", "NoConflicts", ""),
    }


@pytest.mark.parametrize("exports", [{}, {"mesa": export(1)}])
def test_an_export_that_is_not_stated_yet_is_pending(exports: dict[str, Any]) -> None:
    assert told(Standing.VALID, exports)["Ready"] == (
        "False",
        "Pending",
        "it is not exported yet",
    )


def test_every_constituent_export_tells_of_a_conflict_and_forgets_it_when_solved() -> None:
    both = {"mesa": export(1), "fjord": export(2, ports=[GRPC], sessionAffinity="ClientIP")}
    for cluster in both:
        change = export_change(exported(), Standing.VALID, merge(both), cluster=cluster, now=NOW)
        assert change is not None
        conflict = conditions(change.manifest)["Conflict"]
        assert conflict["status"] == "True"
        assert conflict["reason"] == "PortConflict,SessionAffinityConflict"
        assert conflict["message"] == (
            "ports grpc 90/TCP of fjord, http 80/TCP of mesa are used, 1/2 clusters disagree; "
            'sessionAffinity "None" of mesa is used, 1/2 clusters disagree'
        )
        again = export_change(
            change.manifest, Standing.VALID, merge(both), cluster=cluster, now=LATER
        )
        assert again is None
        solved = export_change(
            change.manifest,
            Standing.VALID,
            merge({"mesa": export(1), "fjord": export(2)}),
            cluster=cluster,
            now=LATER,
        )
        assert solved is not None
        found = conditions(solved.manifest)
        assert (found["Conflict"]["reason"], found["Conflict"]["lastTransitionTime"]) == (
            "NoConflicts",
            LATER,
        )
        assert found["Valid"]["lastTransitionTime"] == NOW


def test_a_status_that_is_none_is_written() -> None:
    change = export_change(exported(status="x"), Standing.VALID, None, cluster="fjord", now=NOW)
    assert change is not None
    assert set(conditions(change.manifest)) == {"Valid", "Ready", "Conflict"}
