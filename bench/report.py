"""The results beside what they are to reach: as a table for the terminal, as a page for the manual.

Pure: both are made from the raw results alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.targets import TARGETS, UNMEASURED, Target, look_up

Results = Mapping[str, Any]
Rows = Sequence[Sequence[str]]

HEADINGS = ("", "measured", "unit", "first aim", "full aim", "verdict")


def number(value: float | None) -> str:
    """A figure as people read it."""
    if value is None:
        return "-"
    if abs(value) >= 1000:  # noqa: PLR2004
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0")


def _aim(target: Target, wanted: float | None) -> str:
    return "" if wanted is None else f"{'>=' if target.at_least else '<='} {number(wanted)}"


def judged(results: Results) -> list[list[str]]:
    """One row per figure of the rows that were run."""
    rows = []
    for target in TARGETS:
        value = look_up(results["rows"], target.path)
        if target.row not in results["rows"]:
            continue
        aims = [_aim(target, target.first), _aim(target, target.full)]
        what = f"({target.row}) {target.what}"
        rows.append([what, number(value), target.unit, *aims, target.verdict(value)])
    return rows


def table(headings: Sequence[str], rows: Rows) -> Iterator[str]:
    """Aligned columns: the first to the left, others to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        cells = [
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def markdown(headings: Sequence[str], rows: Rows) -> Iterator[str]:
    """The same as Markdown."""
    yield f"| {' | '.join(headings)} |"
    yield f"|{'|'.join(['---', *['--:'] * (len(headings) - 1)])}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def summary(results: Results) -> str:
    """For the terminal."""
    lines = list(table(HEADINGS, judged(results)))
    lines += ["", *taken(results)]
    return "\n".join(lines)


def taken(results: Results) -> Iterator[str]:
    """Where, when and of what the figures were taken."""
    machine, versions = results["machine"], results["versions"]
    memory = (machine["memory_bytes"] or 0) / 2**30
    used = f"{len(results['cores'])} of {machine['cores']} cores"
    yield f"{results['date']}, {machine['cpu']}, {used}, {memory:.1f} GiB"
    yield f"Linux {machine['kernel']}, " + ", ".join(f"{k} {v}" for k, v in versions.items())
    changed = results["uncommitted_files"]
    state = f" with {changed} files changed since" if changed else ""
    yield f"commit {results['commit']}{state}, seed {results['seed']}"
    for row, about in sorted(results.get("apart", {}).items()):
        loads = " and ".join(number(about[when][0]) for when in ("load_before", "load_after"))
        yield (
            f"({row}) in a run of its own: {about['date']}, commit {about['commit']}, "
            f"load (1 min) {loads} before and after"
        )
    loads = " and ".join(number(results[when][0]) for when in ("load_before", "load_after"))
    yield f"took {results['seconds']:.0f} s; load (1 min) {loads} before and after"


_PAIR = ("one_way_ms", "p50", "p95", "p99", "max", "commits")
_WRITER = ("farthest_one_way_ms", "p50", "p95", "p99", "max")
_STREAM = (
    ("source events/s, before collapsing", "source_events_per_second"),
    ("changes/s committed, after collapsing", "committed_per_second"),
    ("commits/s", "commits_per_second"),
    ("changes per commit", "changes_per_commit"),
    ("WebSocket bytes per change", "bytes_per_change"),
    ("source: share of a core", "writer_cpu_share"),
    ("receiver: share of a core", "reader_cpu_share"),
    ("source events per CPU second of the source", "events_per_writer_cpu_second"),
    ("changes per CPU second of the receiver", "committed_per_receiver_cpu_second"),
)


def _latency(name: str, found: Results) -> Iterator[str]:
    rate = number(found["changes_per_second_per_region"])
    yield f"### {rate} changes/s in every region ({name})"
    yield ""
    yield (
        f"{number(found['source_events'])} source events in {number(found['seconds'])} s; the five "
        f"agents used {found['cores_used_by_agents']:.2f} cores. Milliseconds from observed to "
        "committed; each writer at the reader where it takes longest:"
    )
    yield ""
    rows = [[row["origin"], *(number(row[key]) for key in _WRITER)] for row in found["writers"]]
    yield from markdown(("writer", "farthest one-way delay", *_WRITER[1:]), rows)
    yield ""
    yield "Every pair:"
    yield ""
    pairs = [
        [f"{row['origin']} to {row['reader']}", *(number(row[key]) for key in _PAIR)]
        for row in found["pairs"]
    ]
    yield from markdown(("pair", "one-way delay", *_PAIR[1:]), pairs)
    yield ""


def _streams(rows: Results) -> Iterator[str]:
    found = [*rows.get("c", {}).values()]
    if "d" in rows:
        found.append(rows["d"]["steady"])
    heads = [
        f"{number(one['services'])} x {one['endpoints_per_service']} endpoints, "
        f"{number(one['tried_per_second'])}/s tried"
        for one in found
    ]
    cells = [[label, *(number(one[key]) for one in found)] for label, key in _STREAM]
    cells += [
        [f"convergence {part}, ms", *(number(one["convergence_ms"][part]) for one in found)]
        for part in ("p50", "p99", "max")
    ]
    yield from markdown(("", *heads), cells)
    yield ""


def _merge(found: Results) -> Iterator[str]:
    rows = [
        [name.replace("_", " "), number(one["per_second"])]
        for name, one in sorted(found["merge"].items())
        if "per_second" in one
    ]
    yield from markdown(("", "per CPU second"), rows)
    yield ""
    rows = [
        [name.replace("_us", "").replace("_", " "), *(number(one[p]) for p in _PAIR[1:5])]
        for name, one in sorted(found["lone_change"].items())
    ]
    yield from markdown(("a lone change, microseconds of CPU", *_PAIR[1:5]), rows)
    yield ""


def _frames(found: Results) -> Iterator[str]:
    rows = [
        [
            f"{name}, {number(float(size.removeprefix('of_')))} in a frame",
            *(
                number(one[form][key])
                for key in ("bytes_per_change", "write_us_per_change", "read_us_per_change")
                for form in ("plain", "packed")
            ),
        ]
        for name, sizes in sorted(found.items())
        for size, one in sorted(sizes.items(), key=lambda row: len(row[0]))
    ]
    heads = [
        f"{what}, {form}"
        for what in ("bytes", "us to write", "us to read")
        for form in ("plain", "packed")
    ]
    yield from markdown(("a change", *heads), rows)
    yield ""


def _steps(found: Results) -> Iterator[str]:
    yield (
        f"A receiver of {number(found['elements'])} elements, with a real journal. CPU is that of "
        "the loop's thread; late is how late the loop was at worst, without waiting for a core."
    )
    yield ""
    heads = ("phase", "chunks", "longest, ms of CPU", "slices told", "longest", "late, ms")
    rows = [
        [
            name,
            number(one["steps"]["chunk"]),
            number(one["cpu_ms"]["chunk"]),
            number(one["steps"].get("tell", 0)),
            number(one["cpu_ms"].get("tell")),
            number(one["late_ms"]),
        ]
        for name, one in found["phases"].items()
    ]
    yield from markdown(heads, rows)
    yield ""


def _emulated(found: Results) -> Iterator[str]:
    yield (
        "Real packets through `python -m bench.emulated`: a network namespace a region, each pair "
        "delayed by half its round trip. All agents and the network share the cores."
    )
    yield ""
    for name in ("at_20", "at_100", "at_20_with_loss"):
        one = found[name]
        yield (
            f"### {number(one['changes_per_second_per_region'])} changes/s in every region, "
            f"{number(one['loss_pct'])} % loss"
        )
        yield ""
        yield (
            f"{number(one['source_events'])} source events; the five agents used "
            f"{one['cores_used_by_agents']:.2f} cores; "
            f"{number(one['wire_bytes_per_change_and_link'])} bytes on the wire for each change "
            "and receiver."
        )
        yield ""
        rows = [[row["origin"], *(number(row[key]) for key in _WRITER)] for row in one["writers"]]
        yield from markdown(("writer", "farthest one-way delay", *_WRITER[1:]), rows)
        yield ""


def page(results: Results) -> str:
    """The manual's page."""
    rows = results["rows"]
    lines = [
        "# Benchmarks",
        "",
        "Made by `make bench ARGS=--docs`; every figure comes from that run's raw results.",
        "The first aim is the first version's, the full aim the finished product's.",
        "",
        *markdown(HEADINGS, judged(results)),
        "",
        "## Where and when",
        "",
        *(f"- {line}" for line in taken(results)),
        "",
        "Agents are real processes over mutual TLS 1.3 on loopback with their journals on disk;",
        "all of them, the relay and the measuring program share the cores named above.",
        "Bytes are WebSocket message bytes: what TLS and TCP add is not counted.",
        "",
    ]
    if "b" in rows:
        lines += ["## From the stamp to the commit, five regions", ""]
        lines += ["A sample is one commit, timed from its oldest change;", "percentiles are over"]
        lines += ["the last thousand commits of a pair.", ""]
        for name in sorted(rows["b"], key=lambda n: float(rows["b"][n]["seconds"])):
            lines += _latency(name, rows["b"][name])
    if "c" in rows or "d" in rows:
        lines += ["## A stream from one agent to another", "", *_streams(rows)]
    if "f" in rows:
        lines += ["## One frame, with its signed head", "", *_frames(rows["f"])]
    if "g" in rows:
        lines += ["## The longest steps", "", *_steps(rows["g"])]
    if "h" in rows:
        lines += ["## Over an emulated wide-area network", "", *_emulated(rows["h"])]
    if "a" in rows:
        lines += ["## The `crdt` package alone", "", *_merge(rows["a"])]
    lines += ["## What no row measures", "", *markdown(("to reach", "instead"), UNMEASURED)]
    return "\n".join(lines).rstrip() + "\n"
