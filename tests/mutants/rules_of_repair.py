"""Mutants of audits and repair by buckets: what is believed, what is taken, what is served."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, core

_REPAIR, _REPAIRS = "replicator/repair.py", "replicator/repairs.py"
_HOSTILE, _SETS = "repair_hostile", "tests/crdt/test_origin_set.py"

MUTANTS = [
    Mutant(
        *("buckets are believed whatever root they have", "repair", _REPAIR),
        "if told.depth != self.depth or root != told.head.root:",
        "if told.depth != self.depth:",
        core(_HOSTILE, "test_a_relay_that_lies_about_buckets_is_left_for_another"),
    ),
    Mutant(
        *("entries of any bucket are taken", "repair", _REPAIR),
        "if part.epoch != head.epoch or foreign:",
        "if part.epoch != head.epoch:",
        core(_HOSTILE, "test_a_relay_that_sends_what_was_not_asked_for_is_left_for_another"),
    ),
    Mutant(
        *("buckets of an older head are followed", "C6, repair", "replicator/remote_origin.py"),
        "return head.version > self.version",
        "return True",
        core(_HOSTILE, "test_buckets_of_an_older_head_lead_nowhere"),
    ),
    Mutant(
        *("what mends leads back", "C5, repair", "crdt/origin_set.py"),
        "replaces = staging.replaces and head.version == self.version",
        "replaces = staging.replaces",
        (f"{_SETS}::test_a_staging_that_mends_replaces_its_own_version_and_no_lower_one",),
    ),
    Mutant(
        *("behind buckets a delta begins where they ended", "C3, repair", "replicator/cursor.py"),
        "self.cover, self.position = None, self.base.stamp",
        "self.cover = None",
        core("cursor", "test_behind_buckets_a_delta_begins_at_the_version_they_were_told_at"),
    ),
    Mutant(
        *("what has rotted is served", "C9, repair", "replicator/announcements.py"),
        "elements, whole = remote.elements, not remote.rotten",
        "elements, whole = remote.elements, True",
        core(
            "repair",
            "test_while_something_is_rotten_the_view_stays_and_is_served_to_nobody",
        ),
    ),
    Mutant(
        *("transfers are taken while buckets are compared", "repair", "replicator/replica.py"),
        "        if remote.repair is not None and not remote.repair.gives_way(chunk):\n"
        "            return []\n",
        "",
        core(_HOSTILE, "test_transfers_under_way_when_it_began_are_not_taken"),
    ),
    Mutant(
        *("an audit looks at no entry", "audit", "crdt/audit.py"),
        "return None if all(map(self.elements.vouched, names)) else False",
        "return None",
        ("tests/crdt/test_audit.py::test_any_one_thing_that_rots_is_found",),
    ),
    Mutant(
        *("a state that failed its audit is kept", "audit", _REPAIRS),
        "effects += self.begin(remote, now)\n            if",
        "pass\n            if",
        core("repair", "test_a_flipped_bit_is_found_by_the_audit_and_its_bucket_alone_is_sent"),
    ),
    Mutant(
        *("our own state that failed its audit is kept", "audit", _REPAIRS),
        "self._own.state_anew(wall_ns)",
        "pass",
        core("repair", "test_our_own_origin_is_stated_anew_in_a_new_epoch"),
    ),
]
"""All mutants of repair."""
