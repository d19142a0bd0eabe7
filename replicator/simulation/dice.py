"""Plans from seeds: the one place of the simulator that decides at random what will happen.

Each seed draws which faults it is about, how often they come, how long links are and how small
chunks are; so different seeds search different corners, instead of all searching the same average.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from replicator.errors import InputError
from replicator.simulation.plan import (
    ADDRESS_BITS,
    CHANGE,
    FAULTS,
    READY_BIT,
    SERVICES,
    SETTINGS,
    Plan,
    Step,
)

_PAIRED = frozenset(
    ("break", "partition", "oneway", "slow", "dial", "forget", "admit", "policy", "rot")
)
"""Faults between a region and another one."""
_BRIEF = frozenset(
    ("break", "clock", "drift", "floor", "bulk", "dial", "forget", "admit", "policy", "rot")
)
"""Faults that are over at once."""
_SECOND_NS = 1_000_000_000
_JUMPS = (-86400, -7200, -1800, -60, -1, 1, 60, 540, 7200, 86400)
_AMOUNTS = {
    "break": (0, 0, 1, 2),
    "partition": (0, 1),
    "oneway": (0, 1),
    "slow": (200, 2_000, 20_000),
    "drift": (-500, -50, 50, 500),
    "floor": (0, 0, _SECOND_NS, 5 * _SECOND_NS),
    "bulk": (0, 20, 100),
    "version": (0, 1, 2),
}
"""Amounts of faults to choose among."""
_OLDER, _STAYS = 0.3, 0.5
_WEIGHTS = {"break": 6, "dial": 2, "oneway": 2, "partition": 2, "crash": 3, "floor": 3, "admit": 2}
"""How often a fault comes beside the others; 1 when not named."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What plans a search is over."""

    regions: int = 5
    seconds: float = 60.0
    steps: int | None = None
    """So many steps with changes among them; None: a fault every few seconds beside ``churn``."""
    churn: float = 10.0
    faults: tuple[str, ...] = tuple(FAULTS)


def names_of(regions: int) -> tuple[str, ...]:
    """Names of so many regions."""
    return tuple(f"r{number}" for number in range(1, regions + 1))


def faults_of(text: str) -> tuple[str, ...]:
    """The faults that a list like ``crash,oneway`` names; raises :class:`InputError`."""
    if text in {"all", "none"}:
        return tuple(FAULTS) if text == "all" else ()
    found = tuple(filter(None, text.split(",")))
    for name in found:
        if name not in FAULTS:
            message = f"there is no fault {name!r}"
            raise InputError(message, cure=f"choose among all, none, {', '.join(FAULTS)}")
    return found


class _Dice:
    """The draws of one plan."""

    def __init__(self, seed: int, shape: Shape) -> None:
        self.rng = random.Random(f"plan/{seed}")  # noqa: S311 - a simulation
        self.shape = shape
        self.names = names_of(shape.regions)
        many = self.rng.randint(1, max(1, len(shape.faults)))
        self.faults = sorted(self.rng.sample(shape.faults, min(many, len(shape.faults))))

    def older(self, newer: list[str]) -> list[str]:
        """Regions that begin with an older version: some, when the seed is about versions."""
        if "version" not in self.faults:
            return []
        return [name for name in self.names if name not in newer and self.rng.random() < _OLDER]

    def change(self, at: float) -> Step:
        rng = self.rng
        bits = rng.getrandbits(ADDRESS_BITS) & rng.getrandbits(ADDRESS_BITS)
        amount = bits | READY_BIT * (rng.random() < 0.8)  # noqa: PLR2004 - a share
        return Step(at, CHANGE, rng.choice(self.names), rng.choice(SERVICES), 0.0, amount)

    def fault(self, at: float, longest: float) -> Step:
        rng = self.rng
        weights = [_WEIGHTS.get(name, 1) for name in self.faults]
        kind = rng.choices(self.faults, weights)[0]
        region = rng.choice(self.names)
        others = [name for name in self.names if name != region]
        other = ""
        if kind in _PAIRED and others:
            other = rng.choice(others)
        elif kind == "crash":
            other = rng.choice(["", "", "silent"])
        return Step(at, kind, region, other, self._seconds(kind, longest), self._amount(kind))

    def _seconds(self, kind: str, longest: float) -> float:
        if kind in _BRIEF or (kind == "version" and self.rng.random() < _STAYS):
            return 0.0
        short = self.rng.random() < 0.5  # noqa: PLR2004 - a share
        return round(self.rng.uniform(0.0, 1.0 if short else longest), 3)

    def _amount(self, kind: str) -> int:
        rng = self.rng
        match kind:
            case "clock":
                return rng.choice(_JUMPS) * _SECOND_NS + rng.randrange(_SECOND_NS)
            case "crash" | "disk":
                return rng.choice([0, 1000, rng.randrange(1000)])
            case "policy" | "rot":
                return rng.randrange(len(SETTINGS) * (1 + len(SERVICES)))
            case _:
                return rng.choice(_AMOUNTS[kind]) if kind in _AMOUNTS else 0

    def short(self, steps: int) -> list[Step]:
        """Changes and faults, about half and half."""
        times = sorted(round(self.rng.uniform(0.0, self.shape.seconds), 3) for _ in range(steps))
        share = self.rng.choice([0.3, 0.5, 0.8]) if self.faults else 1.0
        longest = self.shape.seconds
        return [
            self.change(at) if self.rng.random() < share else self.fault(at, longest)
            for at in times
        ]

    def long(self) -> list[Step]:
        """Faults at random times, five seconds apart on average."""
        steps: list[Step] = []
        at = self.rng.expovariate(0.2)
        while self.faults and at < self.shape.seconds:
            steps.append(self.fault(round(at, 3), 20.0))
            at += self.rng.expovariate(0.2)
        return steps


def make_plan(seed: int, shape: Shape) -> Plan:
    """The plan of a seed: the same for the same arguments, on every machine."""
    dice = _Dice(seed, shape)
    rng = dice.rng
    small = shape.steps is not None
    delay = rng.choice([0.002, 0.03, 0.2]) if small else 0.08
    jitter = rng.choice([0.0, 0.0, 0.02, 0.3]) if small else 0.005
    newer = [name for name in dice.names if rng.random() < 0.15]  # noqa: PLR2004 - a share
    older = dice.older(newer)
    chunk = rng.choice([200, 1000, 128 * 1024])
    steps: Sequence[Step] = dice.long() if shape.steps is None else dice.short(shape.steps)
    return Plan(
        seed=seed,
        regions=dice.names,
        seconds=shape.seconds,
        churn=0.0 if small else shape.churn,
        tick=0.25 if small else 0.1,
        chunk=chunk,
        delay=delay,
        jitter=jitter,
        newer=tuple(newer),
        older=tuple(older),
        steps=tuple(steps),
    )
