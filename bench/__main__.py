"""``python -m bench``: all measurements, printed beside what they are to reach.

Rows: (a) merge and delta of the ``crdt`` package, (b) stamp-to-commit latency of five agents,
(c) sustained changes per second, (d) bytes per change and of a quiet link, (e) memory per element,
(f) bytes and CPU of one frame, plain and packed, (g) the longest step of the event loop.
(h) is what ``python -m bench.emulated`` printed; rows of other runs are taken in with ``--add``.
A row that is measured only when asked for (``--only kubernetes``) runs real Kubernetes API servers,
built at first use as for ``make e2e``, and has a page of its own.
Everything runs on two cores.  A figure that misses its aim is printed as missed; the exit code
tells only whether the measuring worked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import (
    crdt,
    kubernetes,
    kubernetes_report,
    latency,
    machine,
    memory,
    packed,
    report,
    stall,
    throughput,
    wire,
)

_SEED = 1
_MERGED, _HELD, _STALLED = 20_000, 100_000, 1_000_000
_ADD = "add the rows of these results, of another run"
_DOCS = Path(__file__).parent.parent / "docs"
_PAGE = _DOCS / "benchmarks.md"
_KUBERNETES = "kubernetes"
_KUBERNETES_PAGE = _DOCS / "benchmarks-kubernetes.md"


def _merge(_: int) -> dict[str, Any]:
    merged = {**crdt.batched(_MERGED, 3), **crdt.bulk(_MERGED, 3)}
    return {"elements": _MERGED, "merge": merged, "lone_change": crdt.lone(_MERGED, 1)}


def _latency(seed: int) -> dict[str, Any]:
    return {
        "at_50": asyncio.run(latency.measure(50.0, 25.0, seed)),
        "at_100": asyncio.run(latency.measure(100.0, 25.0, seed)),
    }


def _throughput(seed: int) -> dict[str, Any]:
    return {
        shape: asyncio.run(throughput.measure(shape, 10.0, seed)) for shape in throughput.SHAPES
    }


def _wire(seed: int) -> dict[str, Any]:
    quiet = asyncio.run(wire.idle(12.0, seed))
    return {
        "idle": quiet,
        "lone": asyncio.run(wire.lone(12.0, seed, quiet)),
        "steady": asyncio.run(wire.steady(8.0, seed)),
    }


def _memory(seed: int) -> dict[str, Any]:
    return {"set": memory.alone(_HELD), "agent": asyncio.run(memory.agents(_HELD, seed))}


_ROWS: dict[str, Callable[[int], dict[str, Any]]] = {
    "a": _merge,
    "b": _latency,
    "c": _throughput,
    "d": _wire,
    "e": _memory,
    "f": packed.measure,
    "g": lambda _: stall.measure(_STALLED),
    _KUBERNETES: kubernetes.measure,
}
_USUAL = [row for row in _ROWS if row != _KUBERNETES]


def measured(rows: Sequence[str], seed: int) -> dict[str, Any]:
    """Run these rows; the raw results."""
    cores, began = machine.two_cores(), time.monotonic()
    results: dict[str, Any] = {"format": "replicator.bench/1", **machine.describe()}
    results |= {"seed": seed, "cores": cores, "load_before": machine.load(), "rows": {}}
    for row in rows:
        at = time.monotonic()
        results["rows"][row] = _ROWS[row](seed)
        print(f"({row}) measured in {time.monotonic() - at:.0f} s", file=sys.stderr, flush=True)
    return results | {"seconds": round(time.monotonic() - began, 1), "load_after": machine.load()}


def _rows(text: str) -> list[str]:
    chosen = sorted(set(text.split(",")))
    unknown = [row for row in chosen if row not in _ROWS]
    if unknown:
        message = f"there is no row {unknown[0]!r}; rows are {','.join(_ROWS)}"
        raise argparse.ArgumentTypeError(message)
    return chosen


def add(results: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Take in the rows of another run, with where they are from."""
    results["rows"] |= other["rows"]
    about = {name: other[name] for name in ("date", "commit", "load_before", "load_after")}
    results.setdefault("apart", {}).update(dict.fromkeys(other["rows"], about))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, or read earlier results, and show them."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", type=_rows, default=_USUAL, metavar="b,c", help="some rows")
    parser.add_argument("--seed", type=int, default=_SEED, help="what the changes come from")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw results there")
    parser.add_argument("--read", type=Path, metavar="FILE", help="show these results: no run")
    parser.add_argument("--add", type=Path, action="append", default=[], metavar="FILE", help=_ADD)
    parser.add_argument("--docs", action="store_true", help="rewrite the pages of the manual")
    options = parser.parse_args(argv)
    if options.read is None:
        results = measured(options.only, options.seed)
    else:
        results = json.loads(options.read.read_text(encoding="utf-8"))
    for file in options.add:
        add(results, json.loads(file.read_text(encoding="utf-8")))
    if options.json is not None:
        text = json.dumps(results, indent=1, sort_keys=True) + "\n"
        options.json.write_text(text, encoding="utf-8")
    print(report.summary(results))
    if options.docs:
        _write_pages(results)
    return 0


def _write_pages(results: dict[str, Any]) -> None:
    """Each page from the rows it shows; a page of which no row was run stays as it is."""
    if _KUBERNETES in results["rows"]:
        text = kubernetes_report.page(results)
        _KUBERNETES_PAGE.write_text(text, encoding="utf-8")
    if set(results["rows"]) - {_KUBERNETES}:
        _PAGE.write_text(report.page(results), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
