"""Mutants of ``crdt``: stamps, ties, the digest, heads, and the rules C2 to C8 and C10."""

from __future__ import annotations

from tests.mutants.mutant import CRDT, Mutant, core, killers, origin_set

_CLOCK, _LWW, _STAMP = "crdt/clock.py", "crdt/lww_set.py", "crdt/stamp.py"
_DIGEST, _SET, _HEAD = "crdt/digest.py", "crdt/origin_set.py", "crdt/head.py"
_ENTRIES, _STAGING = "crdt/entries.py", "crdt/staging.py"


def _clock(*names: str) -> tuple[str, ...]:
    return tuple(f"{CRDT}test_clock.py::{name}" for name in names)


def _stamp(*names: str) -> tuple[str, ...]:
    return tuple(f"{CRDT}test_stamp.py::{name}" for name in names)


def _lww(*names: str) -> tuple[str, ...]:
    return tuple(f"{CRDT}test_lww_set.py::{name}" for name in names)


def _digest(*names: str) -> tuple[str, ...]:
    return tuple(f"{CRDT}test_digest.py::{name}" for name in names)


def _head(*names: str) -> tuple[str, ...]:
    return tuple(f"{CRDT}test_head.py::{name}" for name in names)


STAMPS = [
    Mutant(
        *("a stamp is the lesser of wall and last", "stamps rise", _CLOCK),
        *("max(self._last + 1, wall_ns)", "min(self._last + 1, wall_ns)"),
        _clock("test_a_frozen_wall_counts_on"),
    ),
    Mutant(
        *("a stamp is the wall clock", "stamps rise", _CLOCK),
        *("max(self._last + 1, wall_ns)", "wall_ns"),
        _clock("test_a_wall_set_back_a_day_still_yields_newer_stamps"),
    ),
    Mutant(
        *("a restart forgets the ceiling", "durable ceiling", _CLOCK),
        *("self._last = max(last, ceiling)", "self._last = last"),
        _clock("test_a_restart_from_the_durable_ceiling_never_reuses_a_stamp"),
    ),
    Mutant(
        *("the ceiling lags behind", "durable ceiling", _CLOCK),
        "if nanotime > self._ceiling:",
        "if nanotime > self._ceiling + CEILING_STEP_NS:",
        _clock("test_no_stamp_is_above_the_ceiling"),
    ),
    Mutant(
        *("stamps are compared as texts", "order of stamps", _STAMP),
        "return self.sort_key() < other.sort_key()",
        "return str(self) < str(other)",
        _stamp("test_order_never_looks_at_the_text"),
    ),
    Mutant(
        *("numbers of stamps are compared as texts", "order of stamps", _STAMP),
        "return self.sort_key() < other.sort_key()",
        "return (str(self.nanotime), self.cluster) < (str(other.nanotime), other.cluster)",
        _stamp("test_order_is_time_first_and_then_the_clusters_bytes"),
    ),
    Mutant(
        *("clusters are compared before times", "order of stamps", _STAMP),
        "return (self.nanotime, self.cluster.encode())",
        "return (self.cluster.encode(), self.nanotime)  # type: ignore[return-value]",
        _stamp("test_order_is_time_first_and_then_the_clusters_bytes"),
    ),
    Mutant(
        *("texts of stamps are read with int()", "text of stamps", _STAMP),
        "if _NANOTIME.fullmatch(text) is None or (value := int(text)) > MAX_NANOTIME:",
        "if (value := int(text)) > MAX_NANOTIME:",
        _stamp("test_c36_only_a_narrow_decimal_string_is_a_nanotime"),
    ),
    Mutant(
        *("an add beats a remove of the same stamp", "ties", _LWW),
        "return (*self.stamp.sort_key(), self.removed, pack(self.value))",
        "return (*self.stamp.sort_key(), not self.removed, pack(self.value))",
        _lww("test_a_remove_beats_an_add_of_the_same_stamp_in_either_order"),
    ),
    Mutant(
        *("of two values the first that came stays", "ties", _LWW),
        "return (*self.stamp.sort_key(), self.removed, pack(self.value))",
        'return (*self.stamp.sort_key(), self.removed, b"")',
        _lww("test_c38_of_two_values_under_one_tag_the_larger_bytes_win"),
    ),
    Mutant(
        *("the last that came wins", "merge is a maximum", _LWW),
        "            if theirs <= mine:\n                return False\n",
        "",
        _lww("test_merge_is_commutative"),
    ),
]

DIGESTS = [
    Mutant(
        *("a leaf is a sum of its records", "the digest cannot be forged", _DIGEST),
        'return blake2b(b"\\x00" + node, digest_size=ROOT_SIZE).digest()',
        "return bytes(sum(node[at::ROOT_SIZE]) & 255 for at in range(ROOT_SIZE))",
        _digest("test_the_root_is_the_one_of_the_definition"),
    ),
    Mutant(
        *("a leaf is the XOR of its records", "the digest cannot be forged", _DIGEST),
        'return blake2b(b"\\x00" + node, digest_size=ROOT_SIZE).digest()',
        "rows = [int.from_bytes(node[at : at + RECORD_SIZE], 'big')"
        " for at in range(0, len(node), RECORD_SIZE)]\n"
        "        return __import__('functools').reduce(int.__xor__, rows, 0).to_bytes(32, 'big')",
        _digest("test_the_root_is_the_one_of_the_definition"),
    ),
    Mutant(
        *("a branch is hashed like a leaf", "the digest cannot be forged", _DIGEST),
        'return blake2b(b"\\x01" + children',
        'return blake2b(b"\\x00" + children',
        core("vectors", "test_a_set_has_its_root"),
    ),
    Mutant(
        *("a leaf holds one record less", "the shape of the digest", _DIGEST),
        *("LEAF_RECORDS = 64", "LEAF_RECORDS = 63"),
        core("vectors", "test_a_set_has_its_root"),
    ),
    Mutant(
        *("a changed branch keeps its old digest", "the incremental root", _DIGEST),
        *("            branch.dirty.add(at)\n", ""),
        _digest("test_incremental_equals_rebuilt_after_any_changes"),
    ),
    Mutant(
        *("a shrunken branch stays a branch", "the shape of the digest", _DIGEST),
        "if branch.count <= LEAF_RECORDS:",
        "if branch.count < LEAF_RECORDS:",
        _digest("test_a_leaf_splits_above_its_limit_and_comes_together_at_it"),
    ),
    Mutant(
        *("entry bytes leave the operation out", "canonical entry bytes", _ENTRIES),
        "return _key_bytes(element) + pack_int(stamp) + pack_int(op) + value",
        "return _key_bytes(element) + pack_int(stamp) + value",
        origin_set("test_entry_bytes_are_messagepack_of_kind_key_stamp_op_and_value"),
    ),
    Mutant(
        *("entry bytes leave the stamp out", "canonical entry bytes", _ENTRIES),
        "return _key_bytes(element) + pack_int(stamp) + pack_int(op) + value",
        "return _key_bytes(element) + pack_int(op) + value",
        core("vectors", "test_an_entry_has_its_bytes_and_record"),
    ),
    Mutant(
        *("the floor is not signed", "heads are signed whole", _HEAD),
        "return pack([_CONTEXT, *self.fields()])",
        "return pack([_CONTEXT, *self.fields()[:5], *self.fields()[6:]])",
        _head("test_two_heads_have_the_same_bytes_exactly_when_they_are_equal")
        + core("vectors", "test_a_head_has_its_bytes_and_signature"),
    ),
    Mutant(
        *("what is signed has no context", "heads are signed whole", _HEAD),
        "return pack([_CONTEXT, *self.fields()])",
        "return pack([*self.fields()])",
        _head("test_the_bytes_are_messagepack_under_a_context_of_their_own"),
    ),
]

COMMITS = [
    Mutant(
        *("a chunk after a gap is taken", "C2", _STAGING),
        *("if start > self.position:", "if start > self.position + (1 << 62):"),
        origin_set("test_a_chunk_after_a_gap_is_refused_and_nothing_of_it_is_kept"),
    ),
    Mutant(
        *("tombstones are not sent", "C3", _SET),
        "if stored is None or stamp_of(stored) != stamp:",
        "if stored is None or stamp_of(stored) != stamp or is_remove(stored):",
        origin_set("test_since_gives_every_current_entry_of_its_interval_whatever_the_budget"),
    ),
    Mutant(
        *("a chunk claims all there is", "C4", _SET),
        "return Chunk(taken, taken[-1][1], complete=False)",
        "return Chunk(taken, self.version.stamp, complete=False)",
        origin_set("test_since_gives_every_current_entry_of_its_interval_whatever_the_budget"),
    ),
    Mutant(
        *("chunks are cut in any order", "C4", _SET),
        "for stamp, element in self._log.after(after):",
        "for stamp, element in reversed(list(self._log.after(after))):",
        origin_set("test_chunks_of_any_budget_together_are_one_transfer"),
    ),
    Mutant(
        *("a transfer is committed whatever its count", "C5", _SET),
        "if draft.count != head.count or draft.digest.root() != head.root:",
        "if draft.digest.root() != head.root:",
        origin_set("test_a_head_that_its_entries_do_not_reproduce_is_not_committed"),
    ),
    Mutant(
        *("a transfer is committed whatever its root", "C5", _SET),
        "if draft.count != head.count or draft.digest.root() != head.root:",
        "if draft.count != head.count:",
        origin_set("test_a_head_that_its_entries_do_not_reproduce_is_not_committed"),
    ),
    Mutant(
        *("a transfer is committed before it reached its head", "C5", _SET),
        "if staging.epoch != head.epoch or staging.position < head.stamp:",
        "if staging.epoch != head.epoch:",
        origin_set("test_a_transfer_that_did_not_reach_the_head_is_a_gap"),
    ),
    Mutant(
        *("a commit that fails leaves its digest", "C5", _SET),
        "mine = (self._entries, self._digest.fork(), self._live, self._tombstones)",
        "mine = (self._entries, self._digest, self._live, self._tombstones)",
        origin_set("test_a_mismatch_puts_back_collected_and_superseded_tombstones"),
    ),
    Mutant(
        *("a draft that failed is used again", "C5", _SET),
        *("            draft.in_order = False  # tombstones are gone from it\n", ""),
        origin_set("test_a_mismatch_puts_back_collected_and_superseded_tombstones"),
    ),
    Mutant(
        *("a head at the committed version counts again", "C6", _SET),
        "if head.version <= self.version and not outdoes:",
        "if head.version < self.version and not outdoes:",
        origin_set("test_a_head_at_or_before_the_committed_version_is_stale"),
    ),
    Mutant(
        *("an older head moves a replica back", "C6", _SET),
        "if head.version <= self.version and not outdoes:",
        "if head.version == self.version and not outdoes:",
        origin_set("test_a_head_at_or_before_the_committed_version_is_stale"),
    ),
    Mutant(
        *("a delta is taken from one below the floor", "C7", _SET),
        "if self.version == ZERO or head.floor > self.version.stamp:",
        "if self.version == ZERO or head.floor > self.version.stamp + 1:",
        origin_set("test_c7_a_delta_may_start_at_the_floor_but_not_below_it"),
    ),
    Mutant(
        *("a delta is not taken at the floor", "C7", _SET),
        "if self.version == ZERO or head.floor > self.version.stamp:",
        "if self.version == ZERO or head.floor >= self.version.stamp:",
        origin_set("test_c7_a_delta_may_start_at_the_floor_but_not_below_it"),
    ),
    Mutant(
        *("who has nothing takes a delta", "C7", _SET),
        "if self.version == ZERO or head.floor > self.version.stamp:",
        "if head.floor > self.version.stamp:",
        origin_set("test_a_replica_with_nothing_takes_no_delta")
        + killers("test_from_nothing_only_a_snapshot_leads_anywhere"),
    ),
    Mutant(
        *("what was seen and is absent comes back", "C8", _STAGING),
        "if entry[1] <= self.last:",
        "if entry[1] <= self.last and self.last != self.seen:",
        origin_set("test_c8_an_old_delta_replayed_after_the_floor_moved_inserts_nothing"),
    ),
    Mutant(
        *("what was seen and came with a repeat comes back", "C8", _SET),
        "if seen < stamp_of(item[1]) <= last",
        "if stamp_of(item[1]) <= last",
        origin_set("test_c8_an_old_delta_replayed_after_the_floor_moved_inserts_nothing"),
    ),
    Mutant(
        *("entries beyond the head are in the draft", "C5", _SET),
        "if draft.in_order and draft.last <= head.stamp:",
        "if draft.in_order:",
        killers("test_entries_beyond_the_head_wait_for_the_next"),
    ),
    Mutant(
        *("entries beyond the head are put", "C5", _SET),
        "if seen < stamp_of(item[1]) <= last",
        "if seen < stamp_of(item[1])",
        killers("test_entries_beyond_the_head_wait_for_the_next"),
    ),
    Mutant(
        *("an older epoch with a later stamp wins", "C10", _SET),
        "if head.version <= self.version and not outdoes:",
        "if head.stamp <= self.version.stamp and not outdoes:",
        core("remote_origin", "test_a_writer_of_a_former_epoch_is_refused"),
    ),
    Mutant(
        *("a transfer of one epoch is committed under another", "C10", _SET),
        "if staging.epoch != head.epoch or staging.position < head.stamp:",
        "if staging.position < head.stamp:",
        origin_set("test_a_transfer_that_did_not_reach_the_head_is_a_gap"),
    ),
    Mutant(
        *("a base of any epoch will do", "C10", _SET),
        "if base is None or base.epoch != self.version.epoch:",
        "if base is None:",
        origin_set("test_c10_a_base_that_is_not_ours_needs_a_snapshot"),
    ),
    Mutant(
        *("a base at any stamp will do", "C10", _SET),
        "if not self.version.stamp <= base.stamp <= head.stamp:",
        "if not base.stamp <= head.stamp:",
        origin_set("test_c10_a_base_that_is_not_ours_needs_a_snapshot"),
    ),
    Mutant(
        *("a base with any root will do", "C10", _SET),
        "return self.version.stamp < base.stamp or base.root == self.root()",
        "return True",
        origin_set("test_c10_a_base_that_is_not_ours_needs_a_snapshot"),
    ),
    Mutant(
        *("a snapshot merges instead of replacing", "snapshots replace", _SET),
        "return self._replace(draft) if staging.replaces else self._merge(draft)",
        "return self._merge(draft)",
        origin_set("test_a_removed_element_whose_tombstone_is_gone_is_told_with_the_heads_stamp"),
    ),
    Mutant(
        *("a snapshot keeps a tombstone at the floor", "floor", _STAGING),
        *("            if stamp > floor:\n", "            if stamp >= floor:\n"),
        origin_set("test_a_tombstone_at_or_below_the_floor_is_never_kept"),
    ),
    Mutant(
        *("a floor keeps its own tombstone", "floor", _SET),
        *("            if stamp > floor:\n", "            if stamp >= floor:\n"),
        core("own_origin", "test_a_moved_floor_takes_a_stamp_and_a_head_and_drops_tombstones"),
    ),
    Mutant(
        *("a floor collects one tombstone too many", "floor", _STAGING),
        *("            if stamp > floor:\n", "            if stamp > floor + 1:\n"),
        origin_set("test_a_mismatch_leaves_the_tombstones_in_the_order_floors_need"),
    ),
    Mutant(
        *("of two signed states the smaller root wins", "equivocation", _SET),
        "larger = (head.root, head.floor, head.count) > mine",
        "larger = (head.root, head.floor, head.count) < mine",
        origin_set("test_of_two_states_signed_for_one_version_all_replicas_end_on_the_larger_root"),
    ),
    Mutant(
        *("stamps of a batch need not rise", "C1", _SET),
        "rises = all(before < after for before, after in pairwise(stamps))",
        "rises = True",
        origin_set("test_an_owner_whose_stamps_do_not_rise_is_refused"),
    ),
]

MUTANTS = [*STAMPS, *DIGESTS, *COMMITS]
