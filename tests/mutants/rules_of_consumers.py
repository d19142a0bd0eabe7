"""Mutants of what consumers are shown: drains and weights, the start of a life, withdrawals."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, core

_TRAFFIC, _POLICIES = "replicator/traffic.py", "replicator/policies.py"
_CONFIRMATION, _WITHDRAWALS = "replicator/confirmation.py", "replicator/withdrawals.py"
_VISIBILITY, _IMPORTER = "replicator/visibility.py", "replicator/importer.py"
_READINESS, _OTHERS = "replicator/readiness.py", "replicator/others.py"
_NEVER_LAST = "test_nothing_but_ready_is_taken_away_and_never_the_last"

TRAFFIC = [
    Mutant(
        *("the last ready endpoints are drained", "never the last", _TRAFFIC),
        "        if here or any(endpoint.ready for endpoints in shown.values()"
        " for endpoint in endpoints):\n            break\n",
        "        break\n",
        core("traffic", _NEVER_LAST),
    ),
    Mutant(
        *("our own ready endpoints do not count", "never the last", _TRAFFIC),
        "if here or any(endpoint.ready",
        "if any(endpoint.ready",
        core("traffic", "test_where_our_own_endpoints_are_ready_none_of_the_others_is_the_last"),
    ),
    Mutant(
        *("drains are given up before weights", "never the last", _TRAFFIC),
        "((True, True), (True, False), (False, True), (False, False))",
        "((True, True), (False, True), (True, False), (False, False))",
        core("traffic", "test_weights_are_given_up_before_drains"),
    ),
    Mutant(
        *("no drain takes the last", "drains", _TRAFFIC),
        "if traffic.last or (traffic.drained and gentle):",
        "if traffic.drained and gentle:",
        core("traffic", "test_weights_are_given_up_before_drains"),
    ),
    Mutant(
        *("a share is rounded down", "weights", _TRAFFIC),
        "share = -(-len(addresses) * weight // FULL_WEIGHT)",
        "share = len(addresses) * weight // FULL_WEIGHT",
        core("traffic", "test_a_weight_leaves_its_share_rounded_up"),
    ),
    Mutant(
        *("a share is chosen by order", "weights", _TRAFFIC),
        'text = f"{cluster} {key} {address}"',
        'text = f"{cluster} {key} {len(addresses)} {address}"',
        core("traffic", "test_an_address_that_goes_moves_at_most_one_other"),
    ),
    Mutant(
        *("families share one weight", "weights", _TRAFFIC),
        "families.setdefault(endpoint.family, set()).add(endpoint.address)",
        'families.setdefault("", set()).add(endpoint.address)',
        core("traffic", "test_each_family_has_its_share"),
    ),
    Mutant(
        *("a drain of the cluster is undone by its service's", "drains", _POLICIES),
        "return Traffic(last or DRAINED in drains, last, int(weight))",
        "return Traffic(last or drains[1] == DRAINED, last, int(weight))",
        core("policies", "test_a_drain_of_the_cluster_or_of_the_service_drains"),
    ),
    Mutant(
        *("the weight of the cluster goes first", "weights", _POLICIES),
        "weight = get(Subject(WEIGHT, *one), get(Subject(WEIGHT, cluster), FULL_WEIGHT))",
        "weight = get(Subject(WEIGHT, cluster), get(Subject(WEIGHT, *one), FULL_WEIGHT))",
        core("policies", "test_the_weight_of_a_service_goes_before_that_of_its_cluster"),
    ),
]

START = [
    Mutant(
        *("what is stored counts as heard", "start gate", _CONFIRMATION),
        "if fresh_at.get(cluster, now) is not None}",
        "if fresh_at.get(cluster) is None or True}",
        core("confirmation", "test_a_stored_cluster_is_held_until_it_is_heard"),
    ),
    Mutant(
        *("an unheard cluster is held back for ever", "fail static", _CONFIRMATION),
        "released = self.unconfirmed if now >= self._until else frozenset()",
        "released = frozenset()",
        core("confirmation", "test_after_ten_seconds_it_is_written_in_doubt_until_it_is_heard"),
    ),
    Mutant(
        *("an unheard cluster is released at once", "start gate", _CONFIRMATION),
        "released = self.unconfirmed if now >= self._until else frozenset()",
        "released = self.unconfirmed",
        core("confirmation", "test_a_stored_cluster_is_held_until_it_is_heard"),
    ),
    Mutant(
        *("a doubt is not told", "fail static", _CONFIRMATION),
        "self.doubtful = self._unheard - self.unconfirmed",
        "self.doubtful = frozenset()",
        core("confirmation", "test_after_ten_seconds_it_is_written_in_doubt_until_it_is_heard"),
    ),
    Mutant(
        *("who was written in doubt is never heard", "fail static", _CONFIRMATION),
        "self._unheard -= heard\n",
        "self._unheard -= heard | released\n",
        core("confirmation", "test_after_ten_seconds_it_is_written_in_doubt_until_it_is_heard"),
    ),
    Mutant(
        *("what is stored is written anew before it is heard", "start gate", _VISIBILITY),
        "shown = {name: shown[name] for name in shown if name not in unconfirmed}",
        "shown = dict(shown)",
        core("importer", "test_p22_what_is_stored_is_not_written_anew_before_its_cluster_is_heard"),
    ),
    Mutant(
        *("what is unconfirmed may be taken away", "fail static", _VISIBILITY),
        "held = unconfirmed.union(seen.held)",
        "held = frozenset(seen.held)",
        core("importer", "test_nothing_that_was_not_heard_is_taken_away_whatever_may_be_deleted"),
    ),
    Mutant(
        *("what was not heard in this life may be deleted", "start gate", _OTHERS),
        "if remote is None or remote.fresh_at is None:\n            return False",
        "if remote is None:\n            return False",
        core("others", "test_nothing_is_deletable_before_its_cluster_was_heard_in_this_life"),
    ),
    Mutant(
        *("what is deletable is not asked", "start gate", _IMPORTER),
        "(not held and self._deletable(cluster))",
        "(not held)",
        core("importer", "test_nothing_of_a_cluster_is_deleted_before_its_state_is_known"),
    ),
    Mutant(
        *("one peer makes a view current", "start gate", _READINESS),
        "_QUORUM = 2",
        "_QUORUM = 1",
        core(
            "readiness",
            "test_a_view_is_current_with_two_configured_peers_caught_up_or_all_there_are",
        ),
    ),
    Mutant(
        *("without peers no view ever is current", "fail static", _READINESS),
        "return now - start.at >= _STATIC_SECONDS",
        "return False",
        core(
            "readiness",
            "test_a_view_is_current_with_two_configured_peers_caught_up_or_all_there_are",
        ),
    ),
]

WITHDRAWALS = [
    Mutant(
        *("a steady cluster's withdrawals are held back", "withdrawals", _WITHDRAWALS),
        "return known is not None and known.shaky and self._guard.fresh_for > 0",
        "return known is not None and self._guard.fresh_for > 0",
        core("withdrawals", "test_only_of_a_cluster_that_was_silent"),
    ),
    Mutant(
        *("no withdrawal is held back", "withdrawals", _WITHDRAWALS),
        "return known is not None and known.shaky and self._guard.fresh_for > 0",
        "return False",
        core("withdrawals", "test_only_of_a_cluster_that_was_silent")
        + core(
            "importer",
            "test_a_mass_withdrawal_after_a_silence_is_held_back_until_its_cluster_was_heard_a_while",
        ),
    ),
    Mutant(
        *("half is most", "withdrawals", _WITHDRAWALS),
        "one.removed * _HALF > one.written and",
        "one.removed * _HALF >= one.written and",
        core("withdrawals", "test_all_or_more_than_half_and_not_just_a_few"),
    ),
    Mutant(
        *("a few of many are held back", "withdrawals", _WITHDRAWALS),
        " and one.removed >= self._guard.least\n",
        "\n",
        core("withdrawals", "test_all_or_more_than_half_and_not_just_a_few"),
    ),
    Mutant(
        *("the only address may go", "withdrawals", _WITHDRAWALS),
        "return most or one.removed == one.written",
        "return most",
        core("withdrawals", "test_all_or_more_than_half_and_not_just_a_few"),
    ),
    Mutant(
        *("what is held back goes piece by piece", "withdrawals", _WITHDRAWALS),
        "if about in self._held or self._is_mass(withdrawal):",
        "if self._is_mass(withdrawal):",
        core("withdrawals", "test_what_is_held_back_stays_so_however_the_rest_changes"),
    ),
    Mutant(
        *("one sign of life is enough", "withdrawals", _WITHDRAWALS),
        "known.shaky = heard - known.since < self._guard.fresh_for",
        "known.shaky = False",
        core(
            "withdrawals",
            "test_another_silence_begins_the_waiting_anew_and_one_sign_is_not_enough",
        ),
    ),
    Mutant(
        *("another silence does not begin the wait anew", "withdrawals", _WITHDRAWALS),
        "known.shaky, known.since = True, None",
        "known.shaky = True",
        core(
            "withdrawals",
            "test_another_silence_begins_the_waiting_anew_and_one_sign_is_not_enough",
        ),
    ),
    Mutant(
        *("a silence that ended unseen does not count", "withdrawals", _WITHDRAWALS),
        "silent = max(gap, now - heard) >= self._stale_after",
        "silent = now - heard >= self._stale_after",
        core("withdrawals", "test_a_silence_that_nobody_looked_at_counts"),
    ),
    Mutant(
        *("a stored cluster is never silent", "withdrawals", _WITHDRAWALS),
        "silent = now - self._start >= min(self._stale_after, STATIC_SECONDS)",
        "silent = False",
        core("withdrawals", "test_a_stored_cluster_is_silent_when_it_is_not_heard_soon"),
    ),
    Mutant(
        *("what an operator wants is held back", "withdrawals", _WITHDRAWALS),
        "elif cluster not in meant and about not in self._released:",
        "elif about not in self._released:",
        core(
            "withdrawals",
            "test_a_policys_withdrawal_and_a_forgotten_clusters_end_are_not_held_back",
        ),
    ),
    Mutant(
        *("a release lasts beyond what it let go", "withdrawals", _WITHDRAWALS),
        "                self._released.discard(about)\n",
        "                pass\n",
        core("withdrawals", "test_an_operator_releases_what_is_held_and_nothing_later"),
    ),
    Mutant(
        *("a release lasts beyond its silence", "withdrawals", _WITHDRAWALS),
        "self._released = {about for about in self._released if about[1] not in steady}",
        "self._released = set(self._released)",
        core("withdrawals", "test_an_operator_releases_what_is_held_and_nothing_later"),
    ),
    Mutant(
        *("the importer carries out what is held back", "withdrawals", _IMPORTER),
        "held = cluster in kept or cluster in seen.held",
        "held = cluster in seen.held",
        core(
            "importer",
            "test_a_mass_withdrawal_after_a_silence_is_held_back_until_its_cluster_was_heard_a_while",
        ),
    ),
]

MUTANTS = [*TRAFFIC, *START, *WITHDRAWALS]
