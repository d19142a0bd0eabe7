"""Mutants of links and what goes over them: sources, relays, who dials whom, renewals, packing."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, core

_SOURCES, _SUBSCRIPTIONS = "replicator/sources.py", "replicator/subscriptions.py"
_ANNOUNCEMENTS, _OVERLAY = "replicator/announcements.py", "replicator/overlay.py"
_RENEWAL, _REDIAL = "replicator/renewal.py", "replicator/redial.py"
_PACKING = "replicator/packing.py"

RELAYS = [
    Mutant(
        *("who takes an origin from us is asked for it like others", "no rings", _SOURCES),
        "            candidate.takes,\n",
        "",
        core("sources", "test_an_origin_is_taken_last_from_who_takes_it_from_us"),
    ),
    Mutant(
        *("two take an origin from each other", "no rings", _SUBSCRIPTIONS),
        "        if remote is None or remote.source != session.number:\n            return []\n"
        "        if self._own",
        "        if remote is None or remote.source:\n            return []\n        if self._own",
        core(
            "replica", "test_of_two_that_take_an_origin_from_each_other_the_larger_turns_elsewhere"
        ),
    ),
    Mutant(
        *("both of two that take from each other turn away", "no rings", _SUBSCRIPTIONS),
        "if self._own.origin.cluster < session.cluster or session.cluster == origin.cluster:",
        "if session.cluster == origin.cluster:",
        core(
            "replica", "test_of_two_that_take_an_origin_from_each_other_the_larger_turns_elsewhere"
        ),
    ),
    Mutant(
        *("a relay that brings no sign of life stays", "no rings", _SUBSCRIPTIONS),
        "return relayed and remote.supply.unrenewed(now)",
        "return relayed and not remote.supply",
        core(
            "replica", "test_a_ring_of_relays_around_an_idle_origin_is_left_before_it_looks_lagging"
        ),
    ),
    Mutant(
        *("a relay speaks for itself alone", "acknowledgements", _ANNOUNCEMENTS),
        "        if clusters == 1:\n",
        "        if clusters:\n",
        core("reach", "test_tombstones_go_once_all_behind_relays_have_acknowledged_them"),
    ),
    Mutant(
        *("a relay tells how far it is itself", "acknowledgements", _ANNOUNCEMENTS),
        "                least = min(least, reach.version)\n",
        "",
        core("reach", "test_the_least_version_behind_a_relay_is_what_it_tells"),
    ),
    Mutant(
        *("a relay speaks for more than there are", "acknowledgements", _ANNOUNCEMENTS),
        "min(clusters, len(self._remotes))",
        "clusters",
        core("reach", "test_no_relay_speaks_for_more_clusters_than_it_knows"),
    ),
    Mutant(
        *("who told nothing has all that its relay has", "acknowledgements", _ANNOUNCEMENTS),
        "if origin in other.cursors and other is not session:",
        "if origin in other.cursors and origin in other.adverts and other is not session:",
        core("reach", "test_a_relay_vouches_for_nobody_who_told_it_nothing"),
    ),
    Mutant(
        *("a relay does not tell on what it is told", "acknowledgements", _ANNOUNCEMENTS),
        "if former is None or reach_of(former) != reach_of(advert):",
        "if former is None:",
        core("reach", "test_tombstones_go_once_all_behind_relays_have_acknowledged_them"),
    ),
]

OVERLAY = [
    Mutant(
        *("nobody dials its successor", "overlay", _OVERLAY),
        "return {_successor(me, others), *by_hash[:FAR], *near, *tried}",
        "return {*by_hash[:FAR], *near, *tried}",
        core("overlay", "test_everybody_dials_the_next_on_the_ring_and_two_that_a_hash_picks"),
    ),
    Mutant(
        *("nobody dials far", "overlay", _OVERLAY),
        "*by_hash[:FAR], *near,",
        "*near,",
        core("overlay", "test_everybody_dials_the_next_on_the_ring_and_two_that_a_hash_picks"),
    ),
    Mutant(
        *("a neighbour gives way to one that is hardly nearer", "overlay", _OVERLAY),
        "_STAYS = 0.8",
        "_STAYS = 1.0",
        core("overlay", "test_a_neighbour_gives_way_only_to_one_that_is_clearly_nearer"),
    ),
    Mutant(
        *("nobody is measured once there are enough", "overlay", _OVERLAY),
        "tried = unknown[: max(1, NEAR - len(near))]",
        "tried = unknown[: max(0, NEAR - len(near))]",
        core("overlay", "test_in_time_everybody_is_measured_and_the_nearest_stay"),
    ),
    Mutant(
        *("who does not answer is not replaced", "overlay", _OVERLAY),
        "if lost and answering:",
        "if lost and not answering:",
        core("overlay", "test_those_that_do_not_answer_are_dialled_still_and_others_beside_them"),
    ),
    Mutant(
        *("a link that the other side dialled is closed", "overlay", _OVERLAY),
        "ours += [session] if session.dialled else []",
        "ours += [session]",
        core("overlay", "test_links_that_others_dialled_or_that_nobody_configured_are_kept"),
    ),
    Mutant(
        *("a clusterset at the bound is no full mesh", "overlay", _OVERLAY),
        "if len(others) < MESH_CLUSTERS:",
        "if len(others) < MESH_CLUSTERS - 1:",
        core("overlay", "test_a_small_clusterset_is_a_full_mesh"),
    ),
]

RENEWALS = [
    Mutant(
        *("the former link is closed before the newer has told", "renewal", _RENEWAL),
        "return across + alike[:-1]",
        "return across + alike",
        core("renewal", "test_changes_go_on_while_a_link_is_renewed"),
    ),
    Mutant(
        *("every link that one side dials stays", "renewal", _RENEWAL),
        "return across + alike[:-1]",
        "return across",
        core("renewal", "test_of_many_links_dialled_by_one_side_two_are_kept_at_most"),
    ),
    Mutant(
        *("links dialled from both sides both stay", "renewal", _RENEWAL),
        "return across + alike[:-1]",
        "return alike[:-1]",
        core("renewal", "test_a_renewal_is_no_pair_of_links_dialled_from_both_sides"),
    ),
    Mutant(
        *("a transfer is cut short by a renewal", "renewal", _SUBSCRIPTIONS),
        "if self._stays(remote, avoid) or self._lingers(remote, now):",
        "if self._stays(remote, avoid):",
        core("renewal", "test_a_transfer_that_is_under_way_ends_on_the_link_it_began_on"),
    ),
    Mutant(
        *("a transfer on a dead link is waited for", "renewal", _SUBSCRIPTIONS),
        "return now - remote.supply.progress_at < STALL_SECONDS",
        "return now > 0",
        core(
            "renewal", "test_a_transfer_that_stalls_on_the_former_link_moves_over_after_two_seconds"
        ),
    ),
    Mutant(
        *("what the former link still brings is dropped", "renewal", _SUBSCRIPTIONS),
        "return remote.source in {session.number, session.successor} - {None}",
        "return remote.source == session.number",
        core("renewal", "test_changes_go_on_while_a_link_is_renewed"),
    ),
    Mutant(
        *("the former link is closed while it is wanted", "renewal", _RENEWAL),
        'return effects, None if wanted else "renewed"',
        'return effects, "renewed"',
        core("renewal", "test_a_transfer_that_is_under_way_ends_on_the_link_it_began_on"),
    ),
    Mutant(
        *("a link waits for a successor that is gone", "renewal", _RENEWAL),
        "            session.successor = None  # the newer link was lost first\n",
        "",
        core("renewal", "test_a_former_link_that_outlives_the_newer_still_tells_of_its_end"),
    ),
    Mutant(
        *(
            "a renewed link of the writer frees the lease",
            "C10, the lease",
            "replicator/siblings.py",
        ),
        "ours = session.cluster == self._own.origin.cluster and session.successor is None",
        "ours = session.cluster == self._own.origin.cluster",
        core("renewal", "test_a_renewal_of_the_writers_link_does_not_free_the_lease"),
    ),
    Mutant(
        *("a link outlives its certificate", "renewal", _REDIAL),
        "life = LINK_SECONDS if valid_seconds is None else min(LINK_SECONDS, valid_seconds)",
        "life = LINK_SECONDS",
        core("redial", "test_a_link_is_renewed_before_the_hour_and_before_a_certificate_ends"),
    ),
]

REDIALS = [
    Mutant(
        *("all try again in step", "retries are spread", _REDIAL),
        "return REDIAL_SECONDS * (0.5 + share)",
        "return REDIAL_SECONDS",
        core("redial", "test_p42_many_agents_do_not_try_again_in_step_after_a_heal"),
    ),
    Mutant(
        *("who was refused asks at one pace", "retries are bounded", _REDIAL),
        "cap = min(_REFUSED_CAP_SECONDS, 2.0**self.refusals)",
        "cap = 2.0",
        core("redial", "test_p42_many_agents_do_not_try_again_in_step_after_a_heal"),
    ),
    Mutant(
        *("a peer may ask to be left alone for ever", "retries are bounded", _REDIAL),
        "min(retry_after, RETRY_AFTER_CAP_SECONDS)",
        "retry_after",
        core(
            "redial",
            "test_what_the_peer_asked_for_is_the_least_and_nobody_is_believed_to_want_for_ever",
        ),
    ),
    Mutant(
        *("all come back when they were asked to", "retries are spread", _REDIAL),
        "RETRY_AFTER_CAP_SECONDS) * (1.0 + share))",
        "RETRY_AFTER_CAP_SECONDS))",
        core(
            "redial",
            "test_what_the_peer_asked_for_is_the_least_and_nobody_is_believed_to_want_for_ever",
        ),
    ),
    Mutant(
        *("refusals are counted beyond a success", "retries are bounded", _REDIAL),
        "self.since, self.refusals = now, 0",
        "self.since = now",
        core("redial", "test_a_link_makes_it_all_begin_anew"),
    ),
]

_BYTES = core("packing", "test_any_entries_come_back_to_the_byte")
_ENDPOINTS = core("packing", "test_endpoints_come_back_to_the_byte")
PACKING = [
    Mutant(
        *("an address with a leading zero is an address", "packed bytes are the same", _PACKING),
        '_OCTET = rb"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"',
        '_OCTET = rb"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[0-9]?[0-9])"',
        core("packing", "test_what_only_looks_like_an_address_or_a_name_comes_back_to_the_byte"),
    ),
    Mutant(
        *("the length before an address is not looked at", "packed bytes are the same", _PACKING),
        "if element[len(before)] == 0xA0 + size:",
        "if size:",
        _BYTES,
    ),
    Mutant(
        *("a name is cut out where it stands first", "packed bytes are the same", _PACKING),
        "begin, _, rest = value.rpartition(name)",
        'begin, _, rest = value.partition(name)\n            rest = rest.replace(name, b"")',
        _BYTES
        + core("packing", "test_what_only_looks_like_an_address_or_a_name_comes_back_to_the_byte"),
    ),
    Mutant(
        *("the operation is told by the form before", "packed bytes are the same", _PACKING),
        "form = (op, value, 0)",
        "form = (0, value, 0)",
        _BYTES,
    ),
    Mutant(
        *("stamps are told without their low bit", "packed bytes are the same", _PACKING),
        "_column(list(map(sub, [to, *stamps], stamps))),",
        "_column([step & ~1 for step in map(sub, [to, *stamps], stamps)]),",
        _BYTES,
    ),
    Mutant(
        *("packed entries may be any number", "bounds", _PACKING),
        "    if size > ENTRIES_LIMIT:\n",
        "    if size > 1 << 16:\n",
        core("packing", "test_more_entries_than_a_chunk_may_hold_are_refused"),
    ),
    Mutant(
        *("packed entries may stand for any size", "bounds", _PACKING),
        "        if left < 0:\n            raise _too_large()\n",
        "",
        core("packing", "test_few_bytes_cannot_stand_for_many_entries_of_many"),
    ),
    Mutant(
        *("a body is inflated whatever comes", "bounds", _PACKING),
        "    if inflate.unconsumed_tail:\n        raise _too_large()\n",
        "    body += inflate.decompress(inflate.unconsumed_tail)\n",
        core("packing", "test_a_bomb_is_not_inflated"),
    ),
    Mutant(
        *("a body may go on beyond its entries", "any bytes are refused", _PACKING),
        "    body.end()\n",
        "",
        core("packing", "test_what_is_cut_short_anywhere_or_goes_on_is_refused"),
    ),
    Mutant(
        *("a place that nothing is at is looked up", "any bytes are refused", _PACKING),
        "    if codes and not 0 <= min(codes) <= max(codes) <= codes.count(0):\n",
        "    if not codes and 0:\n",
        core("packing", "test_a_place_that_nothing_is_at_is_refused"),
    ),
    Mutant(
        *("unknown flags are passed over", "any bytes are refused", _PACKING),
        "    if any(flag & ~(_OP | _NAMED) for flag in flags):\n",
        "    if any(flag & ~0xFF for flag in flags):\n",
        core("packing", "test_a_body_that_says_what_cannot_be_is_refused"),
    ),
]

MUTANTS = [*RELAYS, *OVERLAY, *RENEWALS, *REDIALS, *PACKING]
