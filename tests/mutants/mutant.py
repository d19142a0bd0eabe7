"""What a mutant is: one small change of one module, and the few tests that must notice it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

CRDT, CORE, MUTANTS = "tests/crdt/", "tests/replicator/", "tests/mutants/"


@dataclass(frozen=True)
class Mutant:
    """Text ``old`` of ``module`` replaced by ``new``; ``tests`` are asked in this order."""

    name: str
    rule: str
    """The rule of the design that is broken."""
    module: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, source: str) -> str:
        """``source`` with the change; :class:`ValueError` unless ``old`` is there exactly once."""
        found = source.count(self.old)
        if found != 1 or self.old == self.new:
            message = f"mutant {self.name!r}: its text is {found} times in {self.module}"
            raise ValueError(message)
        return source.replace(self.old, self.new)


def origin_set(*names: str) -> tuple[str, ...]:
    """Tests of one origin's set."""
    return tuple(f"{CRDT}test_origin_set.py::{name}" for name in names)


def core(file: str, *names: str) -> tuple[str, ...]:
    """Tests of one module of the replicator."""
    return tuple(f"{CORE}test_{file}.py::{name}" for name in names)


def killers(*names: str) -> tuple[str, ...]:
    """Tests that were written because a mutant had survived, or would have."""
    return tuple(f"{MUTANTS}test_killers.py::{name}" for name in names)
