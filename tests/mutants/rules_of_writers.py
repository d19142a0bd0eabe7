"""Mutants of who writes an origin: the lease and its numbers, taking over, floors, decisions."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, core

_ELECTION, _SIBLINGS = "replicator/election.py", "replicator/siblings.py"
_OWN, _COLLECTION = "replicator/own_origin.py", "replicator/collection.py"
_POLICIES, _STEERING = "replicator/policies.py", "replicator/steering.py"

ELECTION = [
    Mutant(
        *("a leader leads as long as others wait", "C10, the lease", _ELECTION),
        "return self._renewed + self._timing.deadline",
        "return self._renewed + self._timing.duration",
        core(
            "election",
            "test_a_leader_stops_ten_seconds_after_the_beginning_of_its_last_renewal",
        ),
    ),
    Mutant(
        *("leading is reckoned from the answer", "C10, the lease", _ELECTION),
        "self._number, self._renewed = record.transitions, self._began",
        "self._number, self._renewed = record.transitions, now",
        core(
            "election",
            "test_a_leader_stops_ten_seconds_after_the_beginning_of_its_last_renewal",
        ),
    ),
    Mutant(
        *("a held lease is taken after the leader's own deadline", "C10, the lease", _ELECTION),
        "wait = last.duration",
        "wait = self._timing.deadline",
        core(
            "election",
            "test_a_held_lease_is_taken_after_it_was_seen_unchanged_for_its_duration",
        ),
    ),
    Mutant(
        *("a renewal that was seen gives no more time", "C10, the lease", _ELECTION),
        "if known is None or known.renewals != record.renewals:",
        "if known is None:",
        core("election", "test_every_renewal_seen_begins_the_wait_anew"),
    ),
    Mutant(
        *("a broken link alone frees the lease", "C10, the lease", _ELECTION),
        "wait = min(wait, self._timing.early)",
        "wait = 0.0",
        core("election", "test_a_lost_holder_that_renews_is_left_alone")
        + core("election_laws", "test_with_true_and_false_hints_two_lead_for_four_seconds_at_most"),
    ),
    Mutant(
        *("a lease is taken under its former number", "C10, numbers rise", _ELECTION),
        "number = max(self._highest, self._epoch) + 1",
        "number = max(self._highest, self._epoch, 1)",
        core("election", "test_who_lapsed_takes_its_own_lease_under_the_next_number"),
    ),
    Mutant(
        *("a lease is taken under an epoch that was met", "C10, numbers rise", _ELECTION),
        "number = max(self._highest, self._epoch) + 1",
        "number = self._highest + 1",
        core("election", "test_a_taking_exceeds_every_epoch_met"),
    ),
    Mutant(
        *("a late answer brings a lapsed number back", "C10, numbers rise", _ELECTION),
        "elif self._stopping or (renewal and self._number is None):",
        "elif self._stopping:",
        core(
            "election",
            "test_a_renewal_that_succeeds_after_the_lapse_does_not_bring_the_old_number_back",
        ),
    ),
    Mutant(
        *("a taking whose answer was lost is believed in", "C10, numbers rise", _ELECTION),
        "if not self._is_ours or self._highest != self._number:\n            self._number = None",
        "self._number = self._highest if self._is_ours else None",
        core("election", "test_a_taking_whose_answer_was_lost_is_repeated_under_the_next_number"),
    ),
    Mutant(
        *("a lease that was deleted is free", "C10, the lease", _ELECTION),
        "            self._since = self._since if known is None else now\n",
        "            self._last = None\n",
        core("election", "test_a_deleted_lease_counts_as_held_by_who_held_it"),
    ),
    Mutant(
        *("after a conflict the lease is not read", "C10, the lease", _ELECTION),
        "self._unread, self._next = True, now",
        "self._unread, self._next = False, now",
        core("election", "test_a_leader_whose_lease_was_taken_stops_with_its_next_renewal"),
    ),
    Mutant(
        *("who stops keeps the lease", "C10, a clean stop", _ELECTION),
        "self._finished = not self._wrote",
        "self._finished = True",
        core("election", "test_a_leader_that_stops_gives_the_lease_back"),
    ),
]

SIBLINGS = [
    Mutant(
        *("who stands by stamps what it sees", "one writer an element", _OWN),
        "        if not self.leading:\n            return 0\n",
        "",
        core("siblings", "TestStandingBy::test_it_stamps_nothing_and_publishes_nothing"),
    ),
    Mutant(
        *("the count of the lease alone is the epoch", "C10, C12", _SIBLINGS),
        "epoch = max(fence, self.epoch + 1, self._members.least_epoch())",
        "epoch = max(fence, self._members.least_epoch())",
        core(
            "siblings",
            "TestTakingOver::test_the_epoch_is_above_every_epoch_held_whatever_the_lease_counts",
        ),
    ),
    Mutant(
        *("an epoch that others do not take is led in", "C10, members", _SIBLINGS),
        "epoch = max(fence, self.epoch + 1, self._members.least_epoch())",
        "epoch = max(fence, self.epoch + 1)",
        core("siblings", "TestTakingOver::test_an_epoch_that_others_do_not_take_is_passed_over"),
    ),
    Mutant(
        *("an epoch that is taken over has no base", "C10", _OWN),
        "self._continues = Base(head.epoch, head.stamp, head.root)",
        "self._continues = None",
        core(
            "siblings",
            "TestTakingOver::test_nothing_is_stamped_again_and_peers_go_on_by_delta",
        ),
    ),
    Mutant(
        *("what is taken over is stamped again", "no new stamp without a change", _OWN),
        "self._hold(elements, head, record)\n        self._moved = self._inherited = True",
        "self._hold(elements, head, record)\n        self.state_anew(0)\n        self.epoch -= 1\n"
        "        self._moved = self._inherited = True",
        core(
            "siblings",
            "TestTakingOver::test_nothing_is_stamped_again_and_peers_go_on_by_delta",
        ),
    ),
    Mutant(
        *("a renewed lease opens an epoch", "C10", _SIBLINGS),
        "            if fence > own.epoch:\n",
        "            if fence >= own.epoch:\n",
        core("siblings", "TestTakingOver::test_a_renewal_changes_nothing"),
    ),
    Mutant(
        *("a lease that ran out is written under", "C10, the lease", _SIBLINGS),
        "if not self._own.leading or now < self._own.leads_until:",
        "if not self._own.leading or now < inf:",
        core("siblings", "TestGivingUp::test_a_lease_that_is_not_renewed_ends_by_itself"),
    ),
    Mutant(
        *("what was not published stays when standing by", "fsync before effect", _OWN),
        "kept = [entry for entry in elements.entries() if entry[1] <= head.stamp]",
        "kept = list(elements.entries())",
        core("siblings", "TestGivingUp::test_a_batch_that_becomes_durable_too_late_is_not_sent"),
    ),
    Mutant(
        *("who gives up holds nothing", "C10, C12", _SIBLINGS),
        "if head is not None and former.restore(elements, head, record):",
        "if head is None and former.restore(elements, head, record):",
        core("siblings", "TestGivingUp::test_it_stays_warm_under_the_next_leader"),
    ),
    Mutant(
        *("any base shows that nothing was lost", "a second writer is told", _SIBLINGS),
        "if base is not None and Version(base.epoch, base.stamp) >= wrote:",
        "if base is not None:",
        core("siblings", "TestZombies::test_one_that_stood_by_first_reports_what_was_lost"),
    ),
    Mutant(
        *("of two stores the earlier state counts", "C11, C12", _SIBLINGS),
        "taken.version >= own.elements.version and taken.known",
        "taken.version <= own.elements.version and taken.known",
        core(
            "siblings",
            "TestRestarts::test_or_with_what_it_took_from_the_writer_if_that_is_later",
        ),
    ),
    Mutant(
        *("who is alone again writes on in the epoch it took", "C10", _SIBLINGS),
        "epoch = max(own.epoch, taken.version.epoch) + 1",
        "epoch = max(own.epoch, taken.version.epoch)",
        core("siblings", "TestRestarts::test_one_that_runs_alone_again_writes_on_above_the_other"),
    ),
    Mutant(
        *("a second agent needs no lease", "one writer an element", "replicator/handshake.py"),
        "if hello.cluster == me.cluster and not me.leased:",
        "if hello.cluster == me.cluster and not hello.cluster:",
        core("siblings", "TestStandingBy::test_without_a_lease_a_second_agent_is_refused"),
    ),
    Mutant(
        *("a stand-by vouches for its writer", "freshness", "replicator/liveness.py"),
        "    if not is_writer(session):\n        return\n    advert_of",
        "    advert_of",
        core("siblings", "TestStandingBy::test_its_beats_do_not_make_a_dead_writer_look_alive"),
    ),
]

FLOORS = [
    Mutant(
        *("a floor that does not move takes a stamp", "floor", _OWN),
        "if floor > self.elements.floor and not self._anew:",
        "if not self._anew:",
        core("own_origin", "test_a_moved_floor_takes_a_stamp_and_a_head_and_drops_tombstones"),
    ),
    Mutant(
        *("a floor moves while all is stated anew", "floor", _OWN),
        "if floor > self.elements.floor and not self._anew:",
        "if floor > self.elements.floor:",
        core("own_origin", "test_no_floor_of_former_stamps_moves_into_what_is_stated_anew"),
    ),
    Mutant(
        *("a floor moves within its batch's former stamp", "C7", _OWN),
        "self._floor_stamp = self._clock.next(wall_ns)",
        "self._floor_stamp = self._clock.last",
        core("own_origin", "test_a_moved_floor_takes_a_stamp_and_a_head_and_drops_tombstones"),
    ),
    Mutant(
        *("tombstones are kept without a bound", "floor policy", _COLLECTION),
        "    bound = max(bound, elements.floor_keeping(max(most, left)))\n",
        "",
        core("collection", "test_ten_thousand_tombstones_are_kept_for_whoever_lags_and_no_more"),
    ),
    Mutant(
        *("what was acknowledged of another epoch counts", "C10, floor policy", _COLLECTION),
        "member.version.stamp if member.version.epoch == epoch else 0",
        "member.version.stamp",
        core("collection", "test_what_was_acknowledged_of_another_epoch_counts_as_nothing"),
    ),
    Mutant(
        *("a floor moves though it frees nothing", "floor policy", _COLLECTION),
        "return bound if bound >= max(oldest, elements.floor + 1) else None",
        "return bound if bound > elements.floor else None",
        core("collection", "test_the_floor_follows_the_member_that_is_furthest_behind"),
    ),
    Mutant(
        *("those who are linked are enough", "floor policy", _COLLECTION),
        "if sum(member.speaks_for for member in present) >= total:",
        "if present:",
        core("reach", "test_the_linked_are_enough_only_when_they_speak_for_all"),
    ),
]

DECISIONS = [
    Mutant(
        *("of two policies the smaller counts", "one decision", _POLICIES),
        "if known is None or known < cell:",
        "if known is None or known > cell:",
        core("policies", "test_the_larger_order_counts_then_the_larger_name"),
    ),
    Mutant(
        *("of two policies the one met first counts", "one decision", _POLICIES),
        "if known is None or known < cell:",
        "if known is None:",
        core("policies", "test_what_counts_depends_on_no_order_and_no_repetition"),
    ),
    Mutant(
        *("a new policy does not outdo the present one", "one decision", _POLICIES),
        "min(known.order + 1, MOST_ORDER)",
        "min(known.order, MOST_ORDER)",
        core("policies", "test_a_decision_survives_its_bytes_and_outdoes_what_was_known"),
    ),
    Mutant(
        *("a policy with a later version's fields counts as none", "newer versions", _POLICIES),
        "    return Cell(order, by, value)\n\n\ndef _is_integer",
        "    return Cell(order, by, value) if len(fields) == 3 else None\n\n\ndef _is_integer",
        core("policies", "test_fields_of_a_later_version_change_nothing_of_a_decision"),
    ),
    Mutant(
        *("a policy of others is not stated again", "one decision", _STEERING),
        "if topic in self._stated or len(self._stated) < CELL_LIMIT:",
        "if topic in self._stated or cell.by == self._own.origin.cluster:",
        core("policies", "test_a_decision_outlives_restarts_and_the_loss_of_its_author"),
    ),
    Mutant(
        *("what we stated in a former life counts no more", "one decision", _STEERING),
        "return merged([self.table, self._stated, *remotes, news])",
        "return merged([self.table, *remotes, news])",
        core("policies", "test_a_decision_is_known_from_the_disk_alone"),
    ),
    Mutant(
        *("an own policy that cannot be read is dropped", "newer versions", _STEERING),
        "self._own.state(POLICIES, self._unread | stated, wall_ns)",
        "self._own.state(POLICIES, stated, wall_ns)",
        core("policies", "test_an_own_cell_that_cannot_be_read_stays_as_it_is"),
    ),
    Mutant(
        *("one member may state policies without a bound", "bounds", _STEERING),
        "    if len(cells) <= CELL_LIMIT:\n        return cells\n",
        "    if cells is not None:\n        return cells\n",
        core("policies", "test_of_one_origin_no_more_cells_than_the_limit_count"),
    ),
]

MUTANTS = [*ELECTION, *SIBLINGS, *FLOORS, *DECISIONS]
