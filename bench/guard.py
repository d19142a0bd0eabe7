"""``python -m bench.guard``: whether the hot paths cost more than they did, in figures that keep.

Nothing here depends on how fast or how busy the machine is: bytes of frames, bytes and blocks of
memory for an element, and calls that the interpreter makes for an entry.  They are compared with
``bench/baseline.json``; one that is more than its margin above it is an error, and so is one that
is missing there.  ``--write`` makes the baseline anew, after a change that is worth its cost.

With ``--cost`` CPU seconds are compared as well, as multiples of a loop of the interpreter's own
that runs in between, with a wide margin: these still differ from one machine to the other.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import process_time
from types import FrameType
from typing import Any, TypeVar

from bench import crdt, packed
from crdt import Head
from replicator.codec import decode, encode_packed
from replicator.messages import Transfer

BASELINE = Path(__file__).parent / "baseline.json"
_SEED = 1
_ELEMENTS, _ENTRIES = 8192, 500
_TURNS = 9
_LOOP = 100_000
MARGINS = {"bytes": 0.01, "memory": 0.03, "calls": 0.05, "cost": 0.5}
"""How far above the baseline a figure may be, by the first word of its name."""
T = TypeVar("T")


def calls(work: Callable[[], T]) -> tuple[int, T]:
    """How many functions ``work`` calls, Python's own and those in C, and what it returns."""
    counted = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    former = sys.getprofile()
    sys.setprofile(count)
    try:
        result = work()
    finally:
        sys.setprofile(former)
    return counted, result


def _frames(size: int) -> dict[str, Transfer]:
    """A frame of so many changes all over, and one of a rolling deploy."""
    found = {}
    for name, source in (("random", packed.all_over), ("rolling", packed.deployment)):
        first, steps = source(_SEED)
        owner, between = packed.Owner(_SEED), packed.BETWEEN_NS[name]
        owner.batch(iter(first), 1 << 40, 1000)
        found[name] = owner.batch(steps, size, between)
    return found


def frame_bytes() -> dict[str, float]:
    """Bytes of a change in a frame with its signed head."""
    return {
        f"bytes a change, {name}, {size} in a frame": round(
            len(encode_packed(transfer)) / len(transfer.entries), 2
        )
        for size in (1, 100)
        for name, transfer in _frames(size).items()
    }


def memory() -> dict[str, float]:
    """Bytes and blocks of an element in a set that has taken it in batches."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    blocks = sys.getallocatedblocks()
    elements = crdt.filled(_ELEMENTS)
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] - before
    more = sys.getallocatedblocks() - blocks
    tracemalloc.stop()
    assert len(elements) == _ELEMENTS  # noqa: S101 - and it is still there
    return {
        "memory, bytes an element": round(taken / _ELEMENTS, 1),
        "memory, blocks an element": round(more / _ELEMENTS, 2),
    }


def _works() -> dict[str, Callable[[], object]]:
    """The hot paths, each over :data:`_ENTRIES` entries, to be run once each and in this order."""
    owner = crdt.Owner(_ELEMENTS)
    replica, start = owner.replica(), owner.elements.version.stamp
    batch = owner.some(_ENTRIES)
    transfer = _frames(_ENTRIES)["random"]
    frame = encode_packed(transfer)
    heads: list[Head] = []

    def commit() -> None:
        crdt.receive(replica, list(crdt.chunks(owner.elements, start)), heads[0])

    return {
        "advance and root": lambda: heads.append(owner.publish(batch)),
        "cut, stage and commit": commit,
        "write a frame": lambda: encode_packed(transfer),
        "read a frame": lambda: decode(frame),
    }


def work_calls() -> dict[str, float]:
    """Calls for an entry in each hot path."""
    return {
        f"calls an entry, {name}": round(calls(work)[0] / _ENTRIES, 2)
        for name, work in _works().items()
    }


def _loop() -> int:
    """What a thousandth of is the unit of cost: arithmetic, slices and a dictionary."""
    found: dict[bytes, int] = {}
    data = bytes(range(256))
    for at in range(_LOOP):
        found[data[at & 127 : (at & 127) + 8]] = at ^ len(found)
    return len(found)


def _cpu(work: Callable[[], object]) -> float:
    began = process_time()
    work()
    return process_time() - began


def costs() -> dict[str, float]:
    """CPU for an entry in each hot path, in thousandths of the loop; the least of some turns."""
    least: dict[str, float] = {}
    for _ in range(_TURNS):
        loop = _cpu(_loop)
        for name, work in _works().items():
            cost = _cpu(work) / _ENTRIES / loop * 1000
            least[name] = min(cost, least.get(name, cost))
    return {f"cost an entry, {name}": round(cost, 3) for name, cost in least.items()}


def measured(*, cost: bool) -> dict[str, float]:
    """All figures."""
    figures = {**frame_bytes(), **memory(), **work_calls()}
    return {**figures, **costs()} if cost else figures


def worse(figures: Mapping[str, float], baseline: Mapping[str, float]) -> list[str]:
    """What is worse than it may be, one sentence each; better ones are no error."""
    found = []
    for name, figure in figures.items():
        margin = MARGINS[name.split(",")[0].split(" ")[0]]
        known = baseline.get(name)
        if known is None:
            found.append(f"{name}: {figure}, and the baseline has none")
        elif figure > known * (1 + margin):
            found.append(f"{name}: {figure}, more than {margin:.0%} above {known}")
    return found


def python() -> str:
    """What calls and memory depend on."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def read_baseline() -> tuple[str, dict[str, float]]:
    """The interpreter that the committed figures are of, and the figures."""
    found: dict[str, Any] = json.loads(BASELINE.read_text(encoding="utf-8"))
    return found["python"], found["figures"]


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, or write the baseline; 1 when something is worse."""
    parser = argparse.ArgumentParser(prog="python -m bench.guard", description=__doc__)
    parser.add_argument("--cost", action="store_true", help="compare CPU as well")
    parser.add_argument("--write", action="store_true", help="make the baseline anew")
    options = parser.parse_args(argv)
    figures = measured(cost=options.cost or options.write)
    if options.write:
        document = {"python": python(), "figures": figures}
        BASELINE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    version, baseline = read_baseline()
    if version != python():
        print(f"the baseline is of Python {version}: only bytes of frames can be compared")
        figures = frame_bytes()
    for name, figure in figures.items():
        print(f"{name:55} {figure:10} {baseline.get(name, '-'):>10}")
    found = worse(figures, baseline)
    for sentence in found:
        print(f"worse: {sentence}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
