"""The gate lets nothing through that is below its threshold, and names what to mend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.coverage_gate import is_pure, judge, main, pure_modules

PROJECT: dict[str, Any] = {
    "tool": {
        "importlinter": {
            "contracts": [
                {"type": "layers", "layers": ["replicator"]},
                {
                    "type": "forbidden",
                    "source_modules": ["crdt", "replicator.codec"],
                    "forbidden_modules": ["asyncio", "os"],
                },
                {
                    "type": "forbidden",
                    "source_modules": ["replicator.agent"],
                    "forbidden_modules": ["yaml"],
                },
            ]
        },
        "replicator": {"coverage": {"pure": 100, "other": 90}},
    }
}


def entry(lines: int, covered: int, branches: int = 0, reached: int = 0) -> dict[str, Any]:
    """One file of a report."""
    return {
        "summary": {
            "num_statements": lines,
            "covered_lines": covered,
            "num_branches": branches,
            "covered_branches": reached,
        },
        "missing_lines": list(range(covered + 1, lines + 1)),
        "missing_branches": [[1, 7]] if reached < branches else [],
    }


def judged(**files: dict[str, Any]) -> tuple[list[str], bool]:
    """The verdict on files named with __ for / and without their ending."""
    named = {name.replace("__", "/") + ".py": value for name, value in files.items()}
    return judge({"files": named}, PROJECT)


def test_the_pure_modules_are_those_kept_from_asyncio() -> None:
    assert pure_modules(PROJECT) == {"crdt", "replicator.codec"}


@pytest.mark.parametrize(
    ("file", "pure"),
    [
        ("crdt/stamp.py", True),
        ("crdt/__init__.py", True),
        ("crdt/testing/laws.py", True),
        ("replicator/codec.py", True),
        ("replicator/codec_other.py", False),
        ("replicator/agent.py", False),
        ("crdtx/a.py", False),
    ],
)
def test_a_file_is_pure_as_its_module_is(file: str, *, pure: bool) -> None:
    assert is_pure(file, pure_modules(PROJECT)) == pure


def test_full_coverage_passes() -> None:
    lines, good = judged(crdt__stamp=entry(10, 10, 4, 4), replicator__agent=entry(10, 9))
    assert good
    assert lines == ["pure: 100.00 % of 1 files", "replicator: 90.00 % of 1 other files"]


def test_one_branch_missing_in_a_pure_file_fails_and_is_named() -> None:
    lines, good = judged(crdt__stamp=entry(10, 10, 4, 3), crdt__head=entry(1000, 1000))
    assert not good
    assert lines[-1] == "  crdt/stamp.py: 92.86 % of 100 %, missing 1->7"


def test_the_rest_of_a_package_is_taken_together() -> None:
    lines, good = judged(replicator__a=entry(10, 5), replicator__b=entry(90, 90))
    assert good
    assert len(lines) == 2


def test_a_package_below_its_threshold_fails_and_its_weak_files_are_named() -> None:
    lines, good = judged(
        replicator__a=entry(10, 5), replicator__b=entry(10, 10), clusters__c=entry(10, 10)
    )
    assert not good
    assert lines[1:] == [
        "clusters: 100.00 % of 1 other files",
        "replicator: 75.00 % of 2 other files",
        "  replicator/a.py: 50.00 % of 90 %, missing 6 7 8 9 10",
    ]


def test_the_status_follows_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "coverage.json"
    report.write_text(json.dumps({"files": {"crdt/stamp.py": entry(1, 1)}}), encoding="utf-8")
    assert main([str(report)]) == 0
    report.write_text(json.dumps({"files": {"crdt/stamp.py": entry(1, 0)}}), encoding="utf-8")
    assert main([str(report)]) == 1
    report.write_text(json.dumps({"files": {}}), encoding="utf-8")
    assert main([str(report)]) == 2
    report.write_text("{", encoding="utf-8")
    assert main([str(report)]) == 2
    assert main([]) == 2
    assert "coverage is as wanted" in capsys.readouterr().out
