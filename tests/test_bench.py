"""The pure parts of the benchmarks, and that a page of the manual is what its raw results say."""

from __future__ import annotations

import json
from pathlib import Path

from bench import kubernetes_report
from bench.sightings import Sightings, spread

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_of_two_real_clusters_is_made_from_its_raw_results() -> None:
    results = json.loads((DOCS / "benchmarks-kubernetes.json").read_text("utf-8"))
    shown = (DOCS / "benchmarks-kubernetes.md").read_text("utf-8")
    assert kubernetes_report.page(results) == shown


def test_percentiles_are_values_that_were_measured() -> None:
    found = spread([float(value) for value in range(200, 0, -1)])
    assert found == {"count": 200, "p50": 100.0, "p90": 180.0, "p99": 198.0, "max": 200.0}
    assert spread([7.0]) == {"count": 1, "p50": 7.0, "p90": 7.0, "p99": 7.0, "max": 7.0}
    assert spread([]) == {"count": 0, "p50": None, "p90": None, "p99": None, "max": None}


def test_a_change_is_visible_with_the_first_slice_that_has_it_or_a_later_one() -> None:
    seen = Sightings()
    assert [seen.ask("cart", now) for now in (1.0, 2.0, 3.0)] == [0, 1, 2]
    assert seen.ask("till", 4.0) == 0
    for number, now in ((0, 1.01), (1, 2.01), (2, 3.01)):
        seen.see("cart", number, now, there=False)
    seen.see("cart", 1, 2.5, there=True)
    seen.see("cart", 1, 2.9, there=True)
    seen.see("other", 0, 2.9, there=True)
    assert seen.lost() == 2
    found = seen.milliseconds(until=4.0)
    assert found["changes"] == 3
    assert found["from_request"]["count"] == 2
    assert found["from_request"]["max"] == 1500.0
    assert found["from_event"]["p50"] == 490.0
    assert seen.milliseconds(since=2.0, until=3.0)["from_request"]["max"] == 500.0
