"""Which specs of the suite are run, in which shares, and what their reports come to."""

from __future__ import annotations

import re
from typing import Any

from .specs import Spec, chosen, focus_of, outcome, passed, shares, specs_of, table


def entry(text: str, *labels: str, state: str = "passed", **fields: Any) -> dict[str, Any]:
    """Build an entry of a report as ginkgo writes it."""
    return {
        "ContainerHierarchyTexts": [""],
        "ContainerHierarchyLabels": [["Optional"], None],
        "LeafNodeType": "It",
        "LeafNodeLabels": list(labels) or None,
        "LeafNodeText": text,
        "State": state,
        "RunTime": 1_500_000_000,
        **fields,
    }


REPORT: list[dict[str, Any]] = [
    {
        "SpecReports": [
            entry("a (b) [c]", "Required"),
            entry("by name", "DNS"),
            entry("Connectivity to a service that is not exported should fail", "Required"),
            entry("broken", "Required", state="failed", Failure={"Message": "it\n was not"}),
            entry("", state="passed", LeafNodeType="BeforeSuite"),
        ]
    },
    {"SpecReports": None},
]


def test_specs_are_read_with_their_labels_and_why_they_failed() -> None:
    found = specs_of(REPORT)
    assert [one.name for one in found][:2] == ["a (b) [c]", "by name"]
    assert found[0].labels == {"Optional", "Required"}
    assert found[0].seconds == 1.5
    assert found[3].message == "it was not"
    assert [one.is_spec for one in found] == [True, True, True, True, False]


def test_without_pods_what_executes_in_pods_is_left_out() -> None:
    listed = specs_of(REPORT)
    assert [one.name for one in chosen(listed, pods=False)] == ["a (b) [c]"]
    assert len(chosen(listed, pods=True)) == 3
    assert [one.name for one in chosen(listed, pods=True, focus="DNS")] == ["by name"]


def test_every_spec_is_in_one_share_and_its_focus_finds_it_alone() -> None:
    specs = [Spec(f"does (x) {number}.", frozenset(), "passed") for number in range(10)]
    made = shares(specs, 3)
    assert sorted(one.name for share in made for one in share) == [one.name for one in specs]
    assert sorted(map(len, made)) == [3, 3, 4]
    assert len(shares(specs[:2], 5)) == 2
    for share in made:
        hit = {one.name for one in specs if re.search(focus_of(share), one.name)}
        assert hit == {one.name for one in share}


def test_what_nobody_ran_is_lost_and_what_failed_around_the_specs_counts() -> None:
    wanted = [Spec("a", frozenset(), "passed"), Spec("b", frozenset(), "passed")]
    filtered = Spec("b", frozenset(), "skipped")
    setup = Spec("", frozenset(), "failed", message="no cluster", is_spec=False)

    ended = outcome(wanted, [wanted[0], filtered, setup])

    assert [one.state for one in ended] == ["passed", "lost", "failed"]
    assert not passed(ended)
    assert table(ended).endswith("1 of 3 passed")
    assert "no cluster" in table(ended)
    assert passed(outcome(wanted[:1], [wanted[0]]))
    assert not passed([])
