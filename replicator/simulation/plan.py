"""What will happen in a simulation: regions, settings, and steps at their times.  Plain values.

A plan is the whole input of a run: the same plan gives the same run, byte for byte.  Steps carry
everything they need, and what happens inside a run is drawn from streams of their own (one a link,
one a region), so leaving a step out changes nothing about the others.  That is what shrinking and
replaying stand on.  Making plans from seeds is :mod:`replicator.simulation.dice`'s.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

from replicator.errors import InputError

CHANGE = "change"
"""``region`` states service ``other``: the bits of ``amount`` are its endpoints and readiness."""
FAULTS = {
    "break": "the links of a pair break; both ends see it, or only one does (amount 1, 2)",
    "partition": "a pair is cut off for a while: held back, or lost with amount 1",
    "oneway": "the same in one direction only",
    "slow": "a pair has only amount bytes a second for a while",
    "dial": "a second link between a pair that may have one already",
    "clock": "a wall clock jumps by amount nanoseconds",
    "drift": "a wall clock runs fast by amount parts in a million",
    "crash": "an agent is killed; amount per mille of its unsynced remote commits survive",
    "stop": "an agent is stopped cleanly and started again",
    "disk": "an agent is killed and its disk is lost",
    "twin": "a second agent of the cluster runs for a while from a copy of the disk",
    "floor": "tombstones are collected up to amount nanoseconds before the head",
    "bulk": "a service gets amount endpoints at once",
    "forget": "an agent decides that another cluster is forgotten, alive or not",
    "admit": "an agent admits a forgotten cluster again",
    "rot": "a bit flips in what an agent holds of another cluster, which somebody notices",
    "policy": "an agent decides about traffic to another cluster: a drain, a weight",
    "version": "an agent goes on as another minor version, 0 older, 1 present, 2 newer",
}
"""Kinds of steps beside changes, and what they mean."""
KINDS = (CHANGE, *FAULTS)
SERVICES = ("cart", "pay", "search")
ADDRESS_BITS = 6
READY_BIT = 1 << ADDRESS_BITS
SETTINGS = (
    ("drain", "drained"),
    ("drain", "drained-last"),
    ("drain", "undrained"),
    ("weight", 0),
    ("weight", 30),
    ("weight", 100),
)
"""What a policy step decides, by its amount: for the whole cluster, then for each service."""


class Step(NamedTuple):
    """One thing that happens; the meaning of the fields after ``region`` depends on the kind."""

    at: float
    """Seconds after the start."""
    kind: str
    region: str
    other: str = ""
    seconds: float = 0.0
    amount: int = 0

    def __str__(self) -> str:
        more = [self.other] if self.other else []
        more += [f"for {self.seconds:g} s"] if self.seconds else []
        more += [f"amount {self.amount}"] if self.amount else []
        return " ".join([f"{self.at:.3f} {self.kind} {self.region}", *more])


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a run needs."""

    seed: int
    regions: tuple[str, ...]
    seconds: float
    """Until then things happen; then everything is mended and must come to rest."""
    churn: float = 0.0
    """Changes a second in each region, beside those of the steps."""
    services: int = 20
    """Services of the churn, with ``endpoints`` each."""
    endpoints: int = 10
    tick: float = 0.1
    """Seconds between two looks at what is due."""
    chunk: int = 128 * 1024
    """Bytes of a chunk, about."""
    delay: float = 0.08
    """The longest one-way delay between two regions, seconds."""
    jitter: float = 0.0
    """Frames take up to this much longer, seconds."""
    newer: tuple[str, ...] = ()
    """Regions that run a later minor version at first."""
    older: tuple[str, ...] = ()
    """Regions that run an earlier one."""
    steps: tuple[Step, ...] = ()

    def without(self, regions: Collection[str]) -> Plan:
        """The plan without some regions and whatever happens to them."""
        kept = tuple(name for name in self.regions if name not in regions)
        steps = tuple(s for s in self.steps if s.region not in regions and s.other not in regions)
        newer = tuple(name for name in self.newer if name not in regions)
        older = tuple(name for name in self.older if name not in regions)
        return replace(self, regions=kept, steps=steps, newer=newer, older=older)

    def only(self, numbers: Iterable[int]) -> Plan:
        """The plan with only the steps of these numbers, counted from 0."""
        wanted = sorted({number for number in numbers if 0 <= number < len(self.steps)})
        return replace(self, steps=tuple(self.steps[number] for number in wanted))

    def dump(self) -> str:
        """The plan as a JSON document."""
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"


def load(text: str) -> Plan:
    """The reverse of :meth:`Plan.dump`; raises :class:`InputError` for anything else."""
    try:
        given: dict[str, Any] = json.loads(text)
        known = {field.name for field in fields(Plan)}
        steps = tuple(Step(*step) for step in given.pop("steps"))
        given |= {name: tuple(given[name]) for name in ("regions", "newer")}
        given["older"] = tuple(given.get("older", ()))
        unknown = given.keys() - known
        if unknown or any(step.kind not in KINDS for step in steps):
            raise InputError("a plan with a key or a kind of step that there is not")
        return Plan(**given, steps=steps)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        message = f"this is no plan of a simulation ({error})"
        raise InputError(message, cure="give a file that simulate wrote with --save") from error


def numbers_of(text: str) -> list[int]:
    """The numbers that a list like ``3,7,10-12`` names; raises :class:`InputError`."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        try:
            found += range(int(first), int(last if dash else first) + 1)
        except ValueError as error:
            message = f"{part!r} is no number or range of numbers"
            raise InputError(message, cure="write them as 3,7,10-12") from error
    return found


def list_of(numbers: Iterable[int]) -> str:
    """The shortest text that :func:`numbers_of` reads as ``numbers``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
