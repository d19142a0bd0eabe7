"""The ledger of long searches: parts put together, what is missing, and the page made of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replicator.simulation.dice import Shape
from replicator.simulation.plan import KINDS, Plan
from replicator.simulation.run import Found, Report
from tests.long.__main__ import LEDGER, search
from tests.long.__main__ import _arguments as arguments_of
from tests.long.ledger import Run, blocks, merged, missing, read, write
from tests.long.page import page_of
from tests.long.search import Code, searched

CODE = Code("c0de", "abc1234")


def part(first: int, last: int, code: str = "c0de") -> Run:
    return Run(
        first,
        last,
        code,
        "abc1234",
        "2026-12-03",
        "2026-12-04",
        60.0,
        {"events": 5},
        {"crash": 2, f"only-{first}": 1},
    )


def test_parts_that_follow_one_another_become_one() -> None:
    whole = merged([part(10, 19), part(0, 9), part(40, 49), part(20, 29, "other")])
    assert [(run.first, run.last, run.code) for run in whole] == [
        (0, 19, "c0de"),
        (20, 29, "other"),
        (40, 49, "c0de"),
    ]
    assert whole[0].totals == {"events": 10}
    assert whole[0].faults == {"crash": 4, "only-0": 1, "only-10": 1}
    assert whole[0].cpu_seconds == 120.0
    assert whole[0].schedules == 20


def test_a_seed_that_was_run_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="seed 9 was run twice"):
        merged([part(0, 9), part(9, 12)])


def test_only_what_was_not_run_on_this_code_is_missing() -> None:
    runs = [part(0, 4), part(6, 7), part(0, 9, "other")]
    assert missing(range(10), runs, "c0de") == [5, 8, 9]
    assert blocks(missing(range(20), runs, "c0de"), 5) == [
        range(5, 6),
        range(8, 13),
        range(13, 18),
        range(18, 20),
    ]


def test_a_ledger_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    assert read(path) == []
    broken = replace(part(20, 29), violations=({"seed": 20, "rule": "12"},))
    write(path, [part(0, 9), broken])
    assert read(path) == [part(0, 9), broken]


def test_a_search_goes_on_where_it_stopped_and_takes_others_in(tmp_path: Path) -> None:
    ledger, other = tmp_path / "ledger.json", tmp_path / "other.json"
    write(other, [part(0, 249)])
    words = ["--seeds", "240..251", "--ledger", str(ledger), "--take", str(other)]
    assert search(arguments_of(words), CODE) == 0
    (run,) = read(ledger)
    assert (run.first, run.last) == (0, 251)
    assert not ledger.with_suffix(".md").exists()
    assert search(arguments_of([*words[:4], "--minutes", "0"]), CODE) == 0
    assert search(arguments_of(["--ledger", str(ledger), "--minutes", "0"]), CODE) == 3


def test_what_a_block_came_to_is_counted() -> None:
    def runner(plan: Plan) -> Report:
        found = Found("12", "planted", 1.0) if plan.seed == 7 else None
        return Report(plan, found, None, 6.0, 1, 2, 3, 4, 5, 6, copies=0.0, digest="")

    def small(seed: int, _: Shape, found: Found) -> dict[str, Any]:
        return {"seed": seed, "rule": found.rule, "detail": found.detail, "replay": "again"}

    run = searched(range(5, 9), CODE, runner, small)
    assert (run.first, run.last, run.schedules) == (5, 8, 4)
    assert run.totals == {"events": 4, "checks": 8, "frames": 12, "commits": 20, "starts": 24}
    assert sum(run.faults.values()) == 4 * 60
    assert run.faults.keys() <= {*KINDS}
    assert [violation["seed"] for violation in run.violations] == [7]
    page = page_of([run])
    assert "| 5 to 8 | 4 | `abc1234` |" in page
    assert "- seed 7, property 12: planted; `again`" in page


def test_the_page_of_the_manual_is_what_its_ledger_says() -> None:
    page = LEDGER.with_suffix(".md").read_text("utf-8")
    assert page == page_of(read(LEDGER))
    assert page.count("## ") == 3
