"""All mutants."""

from __future__ import annotations

from tests.mutants import (
    rules_of_consumers,
    rules_of_core,
    rules_of_leading,
    rules_of_links,
    rules_of_repair,
    rules_of_sets,
    rules_of_writers,
)

MUTANTS = (
    *rules_of_sets.MUTANTS,
    *rules_of_core.MUTANTS,
    *rules_of_leading.MUTANTS,
    *rules_of_writers.MUTANTS,
    *rules_of_links.MUTANTS,
    *rules_of_repair.MUTANTS,
    *rules_of_consumers.MUTANTS,
)
