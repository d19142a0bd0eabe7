from __future__ import annotations

from typing import Any

import pytest

from replicator.demo import summary
from replicator.demo.lag import Phases, Sample
from replicator.demo.regions import REGIONS, one_way_ms
from tests.replicator.demo.readings import cluster, status

S = 1_000_000_000


def two(**of_mesa: Any) -> dict[str, Any]:
    """Two regions that agree, except for what is said of mesa's status."""
    return {
        "fjord": status("fjord", cluster("fjord", own=True), cluster("mesa"), peers=("connected",)),
        "mesa": status(
            "mesa",
            cluster("fjord"),
            cluster("mesa", own=True),
            **{"peers": ("connected",)} | of_mesa,
        ),
    }


def test_the_delay_is_half_the_round_trip_in_both_directions() -> None:
    assert one_way_ms("us-east-1", "sa-east-1") == 57.5
    assert one_way_ms("sa-east-1", "us-east-1") == 57.5
    assert one_way_ms("eu-west-1", "eu-west-1") == 0.0
    assert len({one_way_ms(a, b) for a in REGIONS for b in REGIONS if a < b}) == 10


def test_a_region_that_is_not_known_has_no_delay() -> None:
    with pytest.raises(KeyError):
        one_way_ms("us-east-1", "atlantis")


@pytest.mark.parametrize(
    "trouble", [{"ready": False}, {"peers": ("connecting",)}, {"peers": ("connected", "backoff")}]
)
def test_a_region_is_linked_when_it_is_ready_and_connected_to_all(trouble: dict[str, Any]) -> None:
    assert summary.linked(two()) == 2
    assert summary.linked(two(**trouble)) == 1


def test_a_region_is_complete_when_it_holds_the_services_of_all() -> None:
    reading = two()
    assert summary.complete(reading, 2) == 2
    assert summary.complete(reading, 3) == 0
    reading["mesa"]["clusters"][0]["services"] = 1
    assert summary.complete(reading, 2) == 1
    del reading["mesa"]["clusters"][0]
    assert summary.complete(reading, 1) == 1


def test_own_versions_are_of_regions_that_have_published() -> None:
    reading = two()
    reading["mesa"]["clusters"][1] = cluster("mesa", own=True, stamp=None)
    assert summary.own_versions(reading) == {"fjord": (1, 7)}


def test_wanted_versions_are_reached_once_every_region_has_them_or_later_ones() -> None:
    reading = two()
    assert summary.reached(reading, {"fjord": (1, 7), "mesa": (1, 6)})
    assert not summary.reached(reading, {"fjord": (1, 8), "mesa": (1, 6)})
    assert not summary.reached(reading, {"fjord": (2, 1), "mesa": (1, 6)})
    reading["fjord"]["clusters"][1] = cluster("mesa", stamp=None)
    assert not summary.reached(reading, {"fjord": (1, 7), "mesa": (1, 6)})
    assert not summary.reached({"fjord": reading["fjord"]}, {"fjord": (1, 7), "mesa": (1, 6)})


def test_equal_digests_are_equal_whatever_else_goes_on() -> None:
    assert summary.agreement(two(), "mesa") == "equal"


def test_digests_that_differ_are_explained() -> None:
    reading = two(digest="e1e1")
    assert summary.agreement(reading, None) == "in transit"
    assert summary.agreement(reading, "mesa") == "differ, mesa is cut off"
    reading["fjord"]["clusters"][1] = cluster("mesa", head_age=summary.IN_TRANSIT_SECONDS)
    assert summary.agreement(reading, None) == "differ"


def test_the_oldest_head_is_one_of_the_others() -> None:
    rows = (
        cluster("fjord", own=True, head_age=9.0),
        cluster("mesa", head_age=1.0),
        cluster("tundra", head_age=2.0),
        cluster("dune", head_age=None),
    )
    assert summary.oldest_head({"fjord": status("fjord", *rows)}, "fjord") == 2.0
    assert summary.oldest_head({"fjord": status("fjord", rows[0])}, "fjord") is None


def test_elements_and_changes_add_up() -> None:
    reading = two(changes=8)
    assert summary.elements(reading, "mesa") == 20
    assert summary.elements(reading, "atlantis") == 0
    assert summary.changes(reading) == 13


def outcome(regions: tuple[str, ...]) -> summary.Outcome:
    """A run with one arrival in each phase, cut from 10 s to 20 s, healed at 21.5 s."""
    *_, other, victim = regions
    first = regions[0]
    samples = [
        Sample(first, other, 1 * S, 1 * S + 90_000_000),
        Sample(first, other, 11 * S, 11 * S + 95_000_000),
        Sample(victim, first, 12 * S, 21 * S),
        Sample(first, other, 30 * S, 30 * S + 99_000_000),
    ]
    rows = [cluster(name) for name in regions]
    final = {name: status(name, *rows) for name in regions}
    phases = Phases(victim, began=0, cut=10 * S, heal=20 * S, healed=21 * S + S // 2)
    return summary.Outcome(final, samples, phases)


def test_the_summary_tells_what_was_measured_in_each_phase() -> None:
    told = summary.summary_lines(outcome(("us-east-1", "eu-west-1", "sa-east-1")), one_way_ms)
    assert told == [
        "from changed at home to committed elsewhere before the cut, ms:",
        "FROM            TO              DELAY    P50    P99    MAX -DELAY    P99    MAX",
        "us-east-1       eu-west-1        35.0     90     90     90    +55    +55    +55",
        "over the one-way delay, all pairs together:",
        "  before the cut     p50 55  p99 55  max 55 ms  (1 arrivals)",
        "  others, meanwhile  p50 60  p99 60  max 60 ms  (1 arrivals)",
        "  after the heal     p50 64  p99 64  max 64 ms  (1 arrivals)",
        "cut off              sa-east-1 for 10.0 s; 1 arrivals waited, up to 9.0 s",
        "longest heal         1.5 s until all that was held back was everywhere",
        "changes made         15 in 3 regions",
        "all digests equal    d0d0, 30 elements in each region",
    ]


def test_of_two_regions_no_others_are_left_meanwhile() -> None:
    told = summary.summary_lines(outcome(("us-east-1", "eu-west-1")), one_way_ms)
    assert not any(line.startswith("  others") for line in told)


def test_a_phase_without_arrivals_says_so() -> None:
    whole = outcome(("us-east-1", "eu-west-1", "sa-east-1"))
    told = summary.summary_lines(summary.Outcome(whole.final, [], whole.phases), one_way_ms)
    assert "  after the heal     nothing was measured" in told


def test_no_line_is_wider_than_a_terminal() -> None:
    pairs = [(a, b) for a in REGIONS for b in REGIONS if a != b]
    samples = [Sample(a, b, 0, 99_999_000_000) for a, b in pairs]
    lines = summary.pair_lines(samples, one_way_ms)
    lines += summary.summary_lines(
        outcome(("us-east-1", "eu-west-1", "ap-northeast-1")), one_way_ms
    )
    assert len(lines) > 20
    assert max(map(len, lines)) <= 80
