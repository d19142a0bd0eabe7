"""All mutants."""

from __future__ import annotations

from tests.mutants import rules_of_core, rules_of_sets

MUTANTS = (*rules_of_sets.MUTANTS, *rules_of_core.MUTANTS)
