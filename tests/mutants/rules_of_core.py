"""Mutants of ``replicator``: the rules C1, C3 to C13, signatures, ownership, sources, beats."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, core, killers

_OWN, _REMOTE = "replicator/own_origin.py", "replicator/remote_origin.py"
_REPLICA, _CURSOR, _OUTFLOW = (
    "replicator/replica.py",
    "replicator/cursor.py",
    "replicator/outflow.py",
)
_SUBSCRIPTIONS, _SOURCES = "replicator/subscriptions.py", "replicator/sources.py"
_CONFLICTS, _SIGNING, _KINDS = (
    "replicator/conflicts.py",
    "replicator/signing.py",
    "replicator/kinds.py",
)
_SKEW, _ANNOUNCEMENTS = "replicator/skew.py", "replicator/announcements.py"
_FLOOR_OF_A_DELTA = "if self.base == ZERO or head.floor > self.base.stamp:"

OWN = [
    Mutant(
        *("an unchanged value gets a new stamp", "no new stamp without a change", _OWN),
        '            if says_the_same(current.get(element, b""), value):\n'
        "                continue\n",
        "",
        core("own_origin", "test_an_unchanged_value_gets_no_stamp"),
    ),
    Mutant(
        *("a stamp is issued twice in a batch", "C1", _OWN),
        "(element, self._clock.next(wall_ns), op, value)",
        "(element, max(self._clock.last, wall_ns), op, value)",
        core("own_origin", "test_a_batch_is_sealed_into_one_head"),
    ),
    Mutant(
        *("a head is published while entries below it wait", "C1", _OWN),
        "entries = tuple(sorted(self._pending.values(), key=_STAMP))",
        "entries = tuple(sorted(self._pending.values(), key=_STAMP))[1:]",
        core("own_origin", "test_a_batch_is_sealed_into_one_head"),
    ),
    Mutant(
        *("a batch is served before it is durable", "C1, fsync before effect", _OWN),
        "return Served(self._since if self.sealing else self.elements.since, head, record, nodes)",
        "return Served(self.elements.since, self.head or head, self.record or record, nodes)",
        core("replica", "test_nothing_of_a_batch_leaves_before_it_is_on_disk"),
    ),
    Mutant(
        *("the served state lacks what the next batch replaces", "C3", _OWN),
        "merge(kept, self._former[first:last], key=_STAMP)",
        "merge(kept, key=_STAMP)",
        core("own_origin", "test_while_a_batch_is_sealed_the_state_before_it_is_served_whole"),
    ),
    Mutant(
        *("the served state is served while its tombstones go", "C3", _OWN),
        "if head is None or record is None or self._withheld:",
        "if head is None or record is None:",
        core(
            "own_origin",
            "test_nothing_is_served_while_a_batch_drops_tombstones_or_before_the_first_head",
        ),
    ),
    Mutant(
        *("a remove takes no stamp of its own", "C13", _OWN),
        "(element, self._clock.next(wall_ns), op, value)",
        "(element, self._clock.next(wall_ns) if op == ADD else self._clock.last, op, value)",
        core("own_origin", "test_what_is_no_longer_stated_is_removed"),
    ),
    Mutant(
        *("a moved floor takes no stamp", "floor", _OWN),
        "self._floor_stamp = self._clock.next(wall_ns)",
        "self._floor_stamp = 0",
        core("own_origin", "test_a_moved_floor_takes_a_stamp_and_a_head_and_drops_tombstones"),
    ),
    Mutant(
        *("an epoch met is not exceeded", "C10, C12", _OWN),
        "self.epoch = max(self.epoch, above) + 1",
        "self.epoch = max(self.epoch, above)",
        core("own_origin", "test_a_higher_epoch_takes_effect_with_the_next_batch_only"),
    ),
    Mutant(
        *("a head issued again keeps its time", "freshness", _OWN),
        "self._issued_at = max(self._issued_at + 1, wall_ns)",
        "self._issued_at = max(self._issued_at, wall_ns)",
        core("own_origin", "test_a_head_is_issued_again_with_a_later_time_and_nothing_else"),
    ),
    Mutant(
        *("what others issued moves our clock", "remote stamps move no clock", _REPLICA),
        "        remote.fresh_at = now\n        head, record = remote.head, remote.record\n",
        "        remote.fresh_at = now\n        head, record = remote.head, remote.record\n"
        "        self.own._clock._last = max(self.own._clock._last, remote.version.stamp)\n",
        killers("test_no_stamp_of_another_cluster_moves_our_clock"),
    ),
    Mutant(
        *(
            "a batch is sent before the journal has it",
            "fsync before effect",
            "replicator/publisher.py",
        ),
        "        while True:\n            try:\n                self.commit_seconds",
        "        self._perform(self._replica.published(self._clock.monotonic()))\n"
        "        while True:\n            try:\n                self.commit_seconds",
        killers("test_nothing_is_sent_before_the_journal_has_it"),
    ),
    Mutant(
        *("with an empty disk the first head waits for nobody", "C12", "replicator/readiness.py"),
        "if not start.empty_state or start.configured <= answered:",
        "if start is not None:",
        core(
            "readiness", "test_with_an_empty_folder_an_agent_waits_for_every_peer_or_thirty_seconds"
        )
        + core("replica", "test_after_a_lost_disk_a_higher_epoch_is_opened_and_nothing_flaps"),
    ),
]

SENDING = [
    Mutant(
        *("a shortened chunk claims what it was cut from", "C4", _OUTFLOW),
        "return Chunk(entries, entries[-1][1], complete=False)",
        "return Chunk(entries, chunk.to, complete=False)",
        core("outflow", "test_a_chunk_holds_no_more_entries_than_a_peer_takes"),
    ),
    Mutant(
        *("a shortened chunk carries the head", "C4", _OUTFLOW),
        "last = head if chunk.complete else None",
        "last = head",
        core("outflow", "test_bulk_is_cut_into_chunks_of_which_one_goes_out_at_a_time"),
    ),
    Mutant(
        *("unknown kinds are not relayed", "C9", _OUTFLOW),
        "tuple(chunk.entries), last)",
        "tuple(e for e in chunk.entries if e[0][1] < 0x60), last)",
        core("replica", "test_where_a_link_is_missing_the_origins_own_bytes_are_relayed"),
    ),
    Mutant(
        *(
            "others' origins are served before the view is current",
            "C9, start gate",
            _ANNOUNCEMENTS,
        ),
        "if not self.relaying or remote is None or remote.head is None or remote.record is None:",
        "if remote is None or remote.head is None or remote.record is None:",
        core("replica", "test_other_origins_are_not_served_before_the_view_is_current"),
    ),
    Mutant(
        *("more is advertised than was committed", "C9", _ANNOUNCEMENTS),
        "return m.Advert(origin, head.version, head.floor, head.root[:ROOT_MARK_SIZE])",
        "told = head.version if remote is None else remote.supply.highest\n"
        "        return m.Advert(origin, told, head.floor, head.root[:ROOT_MARK_SIZE])",
        killers("test_nothing_sent_claims_more_than_it_holds_or_its_sender_committed"),
    ),
    Mutant(
        *("a delta is sent from one below the floor", "C7", _CURSOR),
        _FLOOR_OF_A_DELTA,
        "if self.base == ZERO or head.floor > self.base.stamp + 1:",
        core("cursor", "test_a_floor_above_what_a_peer_has_takes_a_snapshot"),
    ),
    Mutant(
        *("a delta is not sent at the floor", "C7", _CURSOR),
        _FLOOR_OF_A_DELTA,
        "if self.base == ZERO or head.floor >= self.base.stamp:",
        core("cursor", "test_a_floor_above_what_a_peer_has_takes_a_snapshot"),
    ),
    Mutant(
        *("a snapshot goes on though tombstones it needs are gone", "C7", _CURSOR),
        "or head.floor > self.first:",
        "or head.floor > head.stamp:",
        core("cursor", "test_a_snapshot_under_way_goes_on_while_it_lacks_no_tombstone"),
    ),
    Mutant(
        *("a delta leads into any epoch", "C10", _CURSOR),
        "if base is None or base.epoch != self.base.epoch:",
        "if base is None:",
        core("cursor", "test_a_delta_leads_into_an_epoch_that_continues_from_what_the_peer_has"),
    ),
    Mutant(
        *("a transfer goes on through a change of epoch", "C10", _CURSOR),
        "            self.position, self.epoch = self.base.stamp, head.epoch\n",
        "            self.epoch = head.epoch\n",
        core("cursor", "test_a_delta_under_way_starts_over_when_the_epoch_changes"),
    ),
    Mutant(
        *("a head issued again is not passed on", "freshness", _CURSOR),
        "return told is None or told.issued_at < head.issued_at or not told.same_state(head)",
        "return told is None or not told.same_state(head)",
        core("cursor", "test_a_later_issue_of_the_same_head_is_news_once"),
    ),
]

TAKING = [
    Mutant(
        *("signatures are not checked", "C5", _REMOTE),
        "        verifier.verify(head, record)\n        return record",
        "        return record",
        core("remote_origin", "test_a_head_with_any_changed_field_is_not_committed"),
    ),
    Mutant(
        *("a head issued again is believed unverified", "C5", _REMOTE),
        "        record = self.verified_by(head, verifier, offered)\n        if not same:",
        "        record = offered or self.record or self.verified_by(head, verifier, offered)\n"
        "        if not same:",
        core("remote_origin", "test_a_renewed_head_is_verified"),
    ),
    Mutant(
        *("what was staged is continued by whoever is next", "C6", _SUBSCRIPTIONS),
        "staging = remote.staging if resumes else None",
        "staging = remote.staging",
        killers("test_c6_another_source_is_asked_from_the_committed_version"),
    ),
    Mutant(
        *("a part of a later state is continued by an earlier one", "C6", _REMOTE),
        "version >= max(staged, self.supply.highest)",
        "version >= staged",
        killers("test_c6_who_has_an_earlier_state_continues_no_part_of_a_later_one"),
    ),
    Mutant(
        *("an interrupted transfer begins anew", "C6", _REMOTE),
        "return self.version if staging is None else Version(staging.epoch, staging.position)",
        "return self.version",
        core("resuming", "test_c6_what_was_staged_is_continued_from_another_peer"),
    ),
    Mutant(
        *("half a state is not continued by deltas", "C6", _REMOTE),
        "self._resumed = staging is not None and staging.replaces",
        "self._resumed = False",
        core("resuming", "test_c6_what_was_staged_is_continued_from_another_peer"),
    ),
    Mutant(
        *("what was staged stays when the source is gone", "C6", _SUBSCRIPTIONS),
        "                if remote.source is None:\n                    remote.staging = None\n",
        "",
        killers("test_what_was_staged_is_let_go_with_its_source"),
    ),
    Mutant(
        *("a snapshot that starts over keeps its first part", "C7", _REMOTE),
        "begins = chunk.snapshot and chunk.start == 0",
        "begins = False",
        core("remote_origin", "test_a_snapshot_that_starts_over_forgets_what_it_sent_before"),
    ),
    Mutant(
        *("deltas and snapshots are staged together", "C2", _REMOTE),
        "            or (staging.replaces and not self._is_followed) != chunk.snapshot\n",
        "",
        core(
            "remote_origin",
            "test_any_order_repetition_and_loss_of_chunks_commits_the_state_or_nothing",
        )
        + killers("test_a_delta_after_half_a_snapshot_is_not_mixed_with_it"),
    ),
    Mutant(
        *("after a failed delta a delta is asked for again", "C7, C10", _REMOTE),
        "            self.distrust = True\n            return Taken(Outcome.AGAIN)",
        "            return Taken(Outcome.AGAIN)",
        core(
            "remote_origin",
            "test_what_a_delta_cannot_continue_takes_a_snapshot_and_no_endless_asking",
        ),
    ),
    Mutant(
        *("a stored version is believed without its entries", "C11", _REMOTE),
        "        if len(elements) != head.count or elements.root() != head.root:\n"
        "            return False\n",
        "",
        core("remote_origin", "test_a_journal_gives_back_what_adds_up_and_nothing_else"),
    ),
    Mutant(
        *("deltas follow a write that failed", "C11", "replicator/recorder.py"),
        "self._torn |= {store.origin for store in batch}",
        "self._torn |= set()",
        killers("test_after_a_write_that_failed_an_origin_is_stored_whole"),
    ),
    Mutant(
        *("a version is stored before its entries", "C11", "replicator/journal.py"),
        '        _put(rows, f"{number}, ?, ?, ?, ?, ?", commit.entries)\n',
        '        rows.commit()\n        _put(rows, f"{number}, ?, ?, ?, ?, ?", commit.entries)\n',
        killers("test_a_version_and_its_entries_are_one_transaction"),
    ),
    Mutant(
        *("another cluster's key is taken", "one writer an element", _KINDS),
        "if key[1] != cluster:",
        "if not key[1]:",
        core("replica_hostile", "test_c57_an_entry_under_another_clusters_key_is_refused"),
    ),
    Mutant(
        *("entries are not held to their canonical form", "canonical bytes", _KINDS),
        "if msgpack.packb(value) != data:",
        "if not data:",
        core("vectors", "test_an_entry_is_taken_or_refused_with_its_code"),
    ),
    Mutant(
        *("any cluster of the set may sign", "heads are their origin's word", _SIGNING),
        "if known.identity != PeerIdentity(self._clusterset, head.origin.cluster):",
        "if known.identity.clusterset != self._clusterset:",
        core("signing", "test_c57_another_clusters_key_signs_nothing_of_ours"),
    ),
    Mutant(
        *("certificates never expire", "valid when issued", _SIGNING),
        "<= head.issued_at <= known.not_after:",
        "<= head.issued_at:",
        core("vectors", "test_a_head_is_believed_or_refused_with_its_code"),
    ),
    Mutant(
        *("any root will do", "the chain leads to the bundle", _SIGNING),
        "if _may_issue(root, below) and _issued_by(path[-1], root):",
        "if _may_issue(root, below):",
        core("signing", "test_a_foreign_root_is_not_trusted"),
    ),
    Mutant(
        *("a head of ours is believed unverified", "adverts prove nothing", _CONFLICTS),
        "                verifier.verify(head, record)\n",
        "                pass\n",
        core("replica_conflicts", "test_a_claim_without_proof_moves_no_epoch"),
    ),
    Mutant(
        *("a head of ours at a lower epoch opens a new one", "C10", _CONFLICTS),
        " and version.epoch >= self._own.epoch",
        "",
        killers("test_a_head_of_a_former_epoch_of_ours_opens_no_other"),
    ),
    Mutant(
        *("an owner asks only when it is behind", "C10", _CONFLICTS),
        "return head.epoch >= self._own.epoch and _differs(advert, head)",
        "return False",
        core("replica_conflicts", "test_another_state_of_our_very_version_opens_a_higher_epoch"),
    ),
    Mutant(
        *("a floor makes no difference between two states", "equivocation", _CONFLICTS),
        "return (advert.mark, advert.floor) != (head.root[:ROOT_MARK_SIZE], head.floor)",
        "return advert.mark != head.root[:ROOT_MARK_SIZE]",
        core("replica_conflicts", "test_one_root_with_two_floors_is_two_states"),
    ),
    Mutant(
        *("of two signed states the smaller is asked for", "equivocation", _CONFLICTS),
        "if not head.outdoes(held):",
        "if head.outdoes(held):",
        core("replica_conflicts", "test_a_smaller_root_is_noted_and_nothing_else"),
    ),
    Mutant(
        *("a stalled source stays for ever", "sources are replaced", _SOURCES),
        "return now - max(self.progress_at, self._behind_at) >= self.patience",
        "return False",
        core("sources", "test_a_source_is_overdue_once_another_was_ahead_for_two_heartbeats"),
    ),
    Mutant(
        *("a relay is preferred to the origin", "sources", _SOURCES),
        "            not candidate.direct,\n",
        "            candidate.direct,\n",
        core("sources", "test_the_origin_is_best_then_the_freshest_then_the_nearest"),
    ),
    Mutant(
        *("the offset has the other sign", "offset from beats", "replicator/freshness.py"),
        "offset = ((peer_received - sent) + (peer_sent - received)) // 2",
        "offset = ((sent - peer_received) + (received - peer_sent)) // 2",
        core("vectors", "test_four_times_give_round_trip_and_offset"),
    ),
    Mutant(
        *("the digest of heads leaves the root out", "heads-hash", _ANNOUNCEMENTS),
        "state = [*head.version, head.floor, head.count, head.root]",
        "state = [*head.version, head.floor, head.count]",
        core("vectors", "test_all_heads_have_one_digest"),
    ),
    Mutant(
        *("the floor waits for nobody", "floor policy", "replicator/collection.py"),
        "if now - member.at < LAG_SECONDS:",
        "if now - member.at < 0:",
        core("collection", "test_the_floor_follows_the_member_that_is_furthest_behind"),
    ),
    Mutant(
        *(
            "a member that is gone is waited for for ever",
            "floor policy",
            "replicator/collection.py",
        ),
        "if now - member.at < LAG_SECONDS:",
        "if now - member.at < 1000 * LAG_SECONDS:",
        core("collection", "test_a_member_that_said_nothing_for_an_hour_is_not_waited_for"),
    ),
]

MEMBERS = [
    Mutant(
        *("of two decisions the smaller counts", "members", "replicator/membership.py"),
        "if known is None or known < cell:",
        "if known is None or known > cell:",
        core("membership", "test_the_larger_order_counts_then_the_larger_name"),
    ),
    Mutant(
        *("the admitted comes back under its old epoch", "members", "replicator/membership.py"),
        "(cell.decision == ADMIT and epoch > cell.minimum)",
        "(cell.decision == ADMIT and epoch >= cell.minimum)",
        core(
            "membership",
            "test_nothing_is_taken_of_the_forgotten_and_only_higher_epochs_of_the_admitted",
        ),
    ),
    Mutant(
        *("heads from the future are taken", "quarantine", _REMOTE),
        "        if not admits(head):\n            return Taken(Outcome.HELD_BACK)\n",
        "",
        core("quarantine", "test_a_clock_two_hours_ahead_holds_its_origin_back_and_nobody_else"),
    ),
    Mutant(
        *("a replica whose own clock is behind blames all others", "quarantine", _SKEW),
        "return 2 * wrong > len(self._newest)",
        "return False",
        core("quarantine", "test_a_receiver_whose_own_clock_is_behind_holds_nobody_back"),
    ),
    Mutant(
        *("one clock is enough to state everything anew", "quarantine", _SKEW),
        "return 2 * finding > len(clocks)",
        "return finding > 0",
        core("skew", "test_most_of_the_connected_peers_must_agree"),
    ),
]

MUTANTS = [*OWN, *SENDING, *TAKING, *MEMBERS]
