"""Mutants of who writes, when several agents share a cluster (C10): in the agent."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, core

_IMPORTER = "replicator/importer.py"
_LEADERSHIP, _EXPORTER = "replicator/leadership.py", "replicator/exporter.py"

MUTANTS = [
    Mutant(
        *("an epoch's number may be used twice", "C10", "replicator/conflicts.py"),
        " or version < self._own.begun",
        "",
        core(
            "epoch_reuse",
            "test_c10_a_head_of_its_epoch_from_before_that_began_makes_a_writer_open_a_higher_one",
        ),
    ),
    Mutant(
        *(
            "the present version counts as the first of its epoch",
            "C10",
            "replicator/own_origin.py",
        ),
        "        if self.head is None or self.head.epoch != self.epoch:\n            self.begun =",
        "        if self.head is not None:\n            self.begun =",
        core(
            "replica_conflicts", "test_heads_that_we_published_ourselves_in_our_epoch_are_nothing"
        ),
    ),
    Mutant(
        *("a lease that hangs is waited for", "C10", _LEADERSHIP),
        "await race(call, self._clock.sleep(step.until - self._clock.monotonic()))",
        "await race(call)",
        core("leadership", "test_without_the_lease_it_stops_within_10_s_and_says_why"),
    ),
    Mutant(
        *("a term begins before it may", "C12", _LEADERSHIP),
        "        if not self._may_begin():\n            return False\n",
        "",
        core("leadership", "test_no_term_begins_before_it_may"),
    ),
    Mutant(
        *("a new writer publishes what its watch has brought", "C10", _EXPORTER),
        "        self.synced.clear()\n",
        "",
        core("exporter", "test_each_term_begins_with_all_of_the_cluster_read_anew"),
    ),
    Mutant(
        *("what may not be published yet is", "C10", "replicator/publisher.py"),
        "return self._replica.own.dirty and self._allowed()",
        "return self._replica.own.dirty",
        core("publisher", "test_nothing_is_published_before_it_is_allowed"),
    ),
    Mutant(
        *("what was begun in a term is written after it", "C10", _IMPORTER),
        "            if not self._may_write():\n                break\n",
        "",
        core("importer", "test_a_term_that_ends_between_two_writes_leaves_the_second_to_the_next"),
    ),
]
