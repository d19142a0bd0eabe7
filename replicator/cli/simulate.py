"""``replicator simulate``: the production core in virtual time, from seeds, with faults."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from replicator.cli.files import read_file
from replicator.cli.output import emit, say, table
from replicator.errors import InputError, NotGood
from replicator.simulation.dice import Shape, faults_of, make_plan
from replicator.simulation.plan import Plan, load, numbers_of
from replicator.simulation.run import Report, run
from replicator.simulation.shrink import Cut, command_of, shrunk

_SUMS = ("events", "checks", "frames", "bytes", "commits", "agent_starts", "simulated_seconds")


class Form(StrEnum):
    """How the result is shown."""

    TABLE = "table"
    JSON = "json"


def _seeds(text: str | None, seed: int) -> range:
    if text is None:
        return range(seed, seed + 1)
    first, dots, last = text.partition("..")
    try:
        found = range(int(first), int(last if dots else first) + 1)
    except ValueError as error:
        message = f"{text!r} is no range of seeds"
        raise InputError(message, cure="write it as 1..100") from error
    if not found:
        message = f"{text!r} names no seed"
        raise InputError(message, cure="write the smaller number first")
    return found


def _written(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"{path} cannot be written ({error.strerror})"
        raise InputError(message, cure="name a file that can") from error


def _traced(plan: Plan, path: Path | None) -> Report:
    if path is None:
        return run(plan)
    with ExitStack() as stack:
        try:
            file: TextIO = stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))
        except OSError as error:
            message = f"{path} cannot be written ({error.strerror})"
            raise InputError(message, cure="name a file that can") from error
        return run(plan, lambda line: print(line, file=file))


class _Search:
    """Runs over seeds, and what they came to."""

    def __init__(self, shape: Shape, cut: Cut, *, shrink: bool) -> None:
        self._shape, self._cut, self._shrink = shape, cut, shrink
        self.sums: Counter[str] = Counter()
        self.runs = 0
        self.failed: list[dict[str, Any]] = []
        self.last: dict[str, Any] = {}
        self.plan: Plan | None = None
        """The last failing plan, made small."""

    def count(self, report: Report) -> dict[str, Any]:
        """Take one report in."""
        document: dict[str, Any] = report.document()
        self.runs += 1
        self.sums.update({name: document[name] for name in _SUMS})
        self.last = document
        if report.found is not None:
            self.failed.append(document)
            self.plan = report.plan
        return document

    def seed(self, seed: int, trace: Path | None) -> None:
        """Run one seed, and make it small when it fails."""
        report = _traced(self._cut.apply(make_plan(seed, self._shape)), trace)
        document = self.count(report)
        if report.found is None:
            return
        cut = self._cut
        if self._shrink:
            cut, found = shrunk(seed, self._shape, cut, report.found)
            document["shrunk"] = {"rule": found.rule, "detail": found.detail}
        self.plan = cut.apply(make_plan(seed, self._shape))
        document["steps_left"] = [str(step) for step in self.plan.steps]
        document["replay"] = command_of(seed, self._shape, cut)

    def document(self) -> dict[str, Any]:
        """Everything, for programs."""
        shown = [self.last] if self.runs == 1 else self.failed
        totals = {name: round(self.sums[name], 3) for name in _SUMS}
        return {
            "runs": self.runs,
            "failed": len(self.failed),
            "totals": totals,
            "reports": shown,
        }

    def show(self, spent: float) -> None:
        """Everything, for people; ``spent`` are seconds of CPU."""
        for document in self.failed:
            found = document["violation"]
            say(f"seed {document['seed']}: property {found['rule']}: {found['detail']}")
            for line in document.get("steps_left", []):
                say(f"  {line}")
            if "replay" in document:
                say(f"  replay: {document['replay']}")
        rows = [[name.replace("_", " "), f"{self.sums[name]:,.0f}"] for name in _SUMS]
        speed = self.sums["simulated_seconds"] / spent if spent else 0.0
        if self.runs == 1:
            rows.append(["copies per receiver", f"{self.last['copies_per_receiver']:.3f}"])
        rows.append(["CPU seconds", f"{spent:.2f}"])
        rows.append(["simulated seconds a CPU second", f"{speed:.1f}"])
        table(["runs", str(self.runs)], rows, right=(1,))
        say(f"{len(self.failed)} of {self.runs} runs broke a property")


def _plans(search: _Search, seeds: Iterable[int], plan: Path | None, trace: Path | None) -> None:
    if plan is not None:
        search.count(_traced(load(read_file(str(plan)).decode("utf-8", "replace")), trace))
        return
    for seed in seeds:
        search.seed(seed, trace)


def _only(only: str | None, drop: str | None, plan: Plan) -> tuple[int, ...] | None:
    if only is None and drop is None:
        return None
    there = range(len(plan.steps))
    kept = list(there) if only is None else numbers_of("" if only == "none" else only)
    dropped = set(numbers_of(drop or ""))
    return tuple(number for number in kept if number not in dropped and number in there)


def simulate(  # noqa: PLR0913 - one argument an option
    *,
    seed: Annotated[int, typer.Option(min=0, help="What everything comes from.")] = 1,
    seeds: Annotated[str | None, typer.Option(metavar="A..B", help="Many seeds.")] = None,
    regions: Annotated[int, typer.Option(min=2, max=500, help="How many regions.")] = 5,
    seconds: Annotated[
        float, typer.Option(min=0.1, max=1e6, help="Virtual time until everything is mended.")
    ] = 60.0,
    steps: Annotated[
        int | None,
        typer.Option(min=0, max=100_000, help="So many steps, changes among them, and no churn."),
    ] = None,
    churn: Annotated[
        float, typer.Option(min=0, max=1000, help="Changes a second in each region.")
    ] = Shape().churn,
    faults: Annotated[
        str, typer.Option(metavar="LIST", help="all, none, or names such as crash,oneway.")
    ] = "all",
    only: Annotated[str | None, typer.Option(metavar="N,N-N", help="Only these steps.")] = None,
    drop: Annotated[str | None, typer.Option(metavar="N,N-N", help="Not these steps.")] = None,
    without: Annotated[str, typer.Option(metavar="REGION,...", help="Not these regions.")] = "",
    until: Annotated[
        float | None, typer.Option(min=0, help="Mend at this time, the plan as before.")
    ] = None,
    jitter: Annotated[
        float | None, typer.Option(min=0, max=60, help="Longest extra delay, seconds.")
    ] = None,
    same_version: Annotated[
        bool, typer.Option("--same-version", help="No region begins as another version.")
    ] = False,
    plan: Annotated[Path | None, typer.Option(metavar="FILE", help="Run a saved plan.")] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan, made small if it fails.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every event of the run.")
    ] = None,
    shrink: Annotated[bool, typer.Option(help="Make failing plans small.")] = True,
    output: Annotated[Form, typer.Option("--output", "-o", help="How to show it.")] = Form.TABLE,
) -> None:
    """Run replicas in virtual time with faults, checking every property after every step.

    Exit status 0 when everything held, 1 when a run broke a property: its steps are then made few,
    and one command is shown that replays them exactly.
    """
    chosen = _seeds(seeds, seed)
    if trace is not None and (len(chosen) > 1 and plan is None):
        raise InputError("a trace is of one run", cure="give --seed, not --seeds")
    shape = Shape(regions, seconds, steps, churn, faults_of(faults))
    first = make_plan(chosen[0], shape)
    cut = Cut(
        only=_only(only, drop, first),
        without=tuple(filter(None, without.split(","))),
        until=until,
        jitter=jitter,
        same_version=same_version,
    )
    search = _Search(shape, cut, shrink=shrink)
    began = time.process_time()
    _plans(search, chosen, plan, trace)
    if save is not None:
        _written(save, (search.plan or cut.apply(first)).dump())
    if output is Form.JSON:
        emit(search.document())
    else:
        search.show(time.process_time() - began)
    if search.failed:
        message = f"{len(search.failed)} of {search.runs} runs broke a property"
        raise NotGood(message if output is Form.JSON else "")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(simulate)
