"""The manual's page about two real clusters.  Pure: made from the raw results alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.report import HEADINGS, Results, judged, markdown, number, taken

_SPREAD = ("count", "p50", "p90", "p99", "max")


def _spreads(rows: dict[str, Any]) -> Iterator[str]:
    cells = [[name, *(number(found[part]) for part in _SPREAD)] for name, found in rows.items()]
    yield from markdown(("milliseconds", *_SPREAD), cells)
    yield ""


def _latencies(found: Results) -> Iterator[str]:
    latency, sync = found["latency"], found["first_sync"]
    preferred = found["latency_preferred"]
    rows = {
        "event to slice beyond": latency["from_event"],
        "request to slice beyond": latency["from_request"],
        "how late the measuring process wakes": latency["own_lateness_ms"],
        "preferred: event to slice beyond": preferred["from_event"],
        "preferred: request to slice beyond": preferred["from_request"],
        "preferred: how late the measuring process wakes": preferred["own_lateness_ms"],
        "event to slice beyond, during the first sync": sync["live_meanwhile"]["from_event"],
        "event to slice beyond, in the seconds after it": sync["live_afterwards"]["from_event"],
    }
    yield from _spreads(rows)


def _account(found: Results) -> Iterator[str]:
    latency, many, sync = found["latency"], found["one_of_many"], found["first_sync"]
    cores = latency["cores_used_by_agent"]
    yield f"- {latency['changes']} changes in {number(latency['seconds'])} s; agents used"
    yield f"  {cores['a']:.3f} and {cores['b']:.3f} cores; {latency['lost']} were never seen."
    yield f"- The service of {number(many['endpoints'])} endpoints was there beyond"
    yield f"  {number(many['filled_in_seconds'])} s after its first slice was written in A."
    yield f"- First sync: {number(sync['seconds_from_launch'])} s from the launch of the process,"
    yield f"  its first slice after {number(sync['seconds_to_first_slice'])} s; agents used"
    yield f"  {number(sync['cpu_seconds']['a'])} and {number(sync['cpu_seconds']['b'])} s of CPU;"
    yield f"  {sync['lost']} live changes were never seen."
    empty = [found["memory_of_empty"][name]["resident_bytes"] / 2**20 for name in ("a", "b")]
    yield f"- Memory before anything was there: {number(empty[0])} and {number(empty[1])} MiB."
    loads = ", ".join(number(one["load"][0]) for one in (latency, many, sync))
    yield f"- Load (1 min) at the end of the three parts: {loads}."


def page(results: Results) -> str:
    """The manual's page, with the raw results at its end where they explain the table."""
    found = results["rows"]["kubernetes"]
    lines = [
        "# Benchmarks between real API servers",
        "",
        "Made by `python -m bench --only kubernetes --docs`; every figure comes from that run's",
        "raw results, which `--json` keeps (`docs/benchmarks-kubernetes.json`).",
        "",
        *markdown(HEADINGS, judged(results | {"rows": {"kubernetes": found}})),
        "",
        "## Where and when",
        "",
        *(f"- {line}" for line in taken(results)),
        f"- Kubernetes {found['kubernetes']}, etcd {found['etcd']}",
        f"- {number(found['one_way_ms'])} ms from agent to agent, one way",
        "",
        "Two API servers with an etcd each, two agents and the measuring program, in which the",
        "delaying relay lives, share the cores named above.  Both API servers write an audit log.",
        "Times are taken by watches of both API servers in one process.  A change replaces an",
        "endpoint (two elements); of the 10,000 one endpoint changes its readiness (one element).",
        "",
        "The machine is shared with other programs that use all of it; *preferred* repeats it",
        "with all programs of this measurement at nice -19 against those.",
        "",
        "## How long",
        "",
        *_latencies(found),
        "## What else was seen",
        "",
        *_account(found),
    ]
    return "\n".join(lines).rstrip() + "\n"
