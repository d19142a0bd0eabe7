"""``replicator simulate``: what it prints, writes, refuses and replays."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from replicator.simulation.dice import Shape, make_plan
from replicator.simulation.plan import Plan, Step, load
from tests.replicator.cli.command import run

SHORT = ("--regions", "3", "--seconds", "3", "--steps", "30")
Capture = pytest.CaptureFixture[str]


def failing(folder: Path) -> Path:
    """A plan with a clock beyond what a stamp can hold: the core raises, which is a finding."""
    steps = (
        Step(0.2, "clock", "r1", amount=10**19),
        Step(0.3, "change", "r1", "cart", amount=127),
    )
    path = folder / "plan.json"
    path.write_text(Plan(1, ("r1", "r2"), 1.0, steps=steps).dump(), encoding="utf-8")
    return path


def test_a_clean_run_is_a_document(capsys: Capture) -> None:
    done = run(capsys, "simulate", "--seed", 7, *SHORT, "-o", "json")
    assert done.status == 0
    assert done.err == ""
    document = done.document
    assert document["runs"] == 1
    assert document["failed"] == 0
    report = document["reports"][0]
    assert report["violation"] is None
    assert report["rested_after_seconds"] >= 0
    assert report["checks"] > 10
    assert len(report["digest"]) == 16


def test_many_seeds_are_summed_up(capsys: Capture) -> None:
    done = run(capsys, "simulate", "--seeds", "3..5", *SHORT)
    assert done.status == 0
    assert done.out.startswith("runs")
    assert done.out.endswith("0 of 3 runs broke a property\n")
    document = run(capsys, "simulate", "--seeds", "3..5", *SHORT, "-o", "json").document
    assert (document["runs"], document["reports"]) == (3, [])
    assert document["totals"]["frames"] > 100


def test_a_plan_is_written_and_read(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    first = run(capsys, "simulate", "--seed", 7, *SHORT, "-o", "json", "--save", path)
    again = run(capsys, "simulate", "--plan", path, "-o", "json")
    assert first.document == again.document
    plan = make_plan(7, Shape(3, 3.0, 30))
    assert load(path.read_text(encoding="utf-8")) == plan


def test_steps_regions_and_times_can_be_left_out(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    cuts = ("--only", "0-9", "--drop", "3,5", "--without", "r3", "--until", "2", "--jitter", "0")
    arguments = ("--seed", 7, *SHORT, *cuts, "--same-version", "--save", path)
    assert run(capsys, "simulate", *arguments).status == 0
    whole = make_plan(7, Shape(3, 3.0, 30)).only([0, 1, 2, 4, 6, 7, 8, 9]).without(["r3"])
    plan = load(path.read_text(encoding="utf-8"))
    assert plan.steps == whole.steps
    assert (plan.seconds, plan.jitter, plan.newer) == (2.0, 0.0, ())


def test_a_trace_tells_every_event(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    assert run(capsys, "simulate", "--seed", 7, *SHORT, "--trace", path).status == 0
    lines = path.read_text(encoding="utf-8").splitlines()
    words = {line.split()[1] for line in lines}
    assert {"start", "accept", "established", "send", "seal", "step", "mend", "found"} <= words
    times = [float(line.split()[0]) for line in lines]
    assert times == sorted(times)


def test_a_violation_is_told_and_the_status_is_one(capsys: Capture, tmp_path: Path) -> None:
    done = run(capsys, "simulate", "--plan", failing(tmp_path))
    assert done.status == 1
    assert "property error: StampError" in done.out
    assert done.err == ""
    done = run(capsys, "simulate", "--plan", failing(tmp_path), "-o", "json")
    assert done.status == 1
    assert done.error == "1 of 1 runs broke a property"
    assert done.document["reports"][0]["violation"]["rule"] == "error"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--seeds", "x"), "range of seeds"),
        (("--seeds", "5..4"), "names no seed"),
        (("--seeds", "1..2", "--trace", "t"), "a trace is of one run"),
        (("--faults", "earthquake"), "no fault"),
        (("--only", "x"), "no number"),
        (("--plan", "missing.json"), "cannot read"),
        ((*SHORT, "--trace", "missing/trace"), "cannot be written"),
        ((*SHORT, "--save", "missing/plan"), "cannot be written"),
    ],
)
def test_what_makes_no_sense_is_refused(
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(capsys, "simulate", *arguments)
    assert done.status == 2
    assert told in done.error


def test_the_words_of_a_replay_are_understood(capsys: Capture) -> None:
    words = shlex.split("simulate --seed 7 --regions 3 --seconds 3 --steps 30 --only none")
    document = run(capsys, *words, "-o", "json").document
    assert document["reports"][0]["steps"] == 0
