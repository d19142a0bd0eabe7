"""Metrics: all there from the start, with 0, and only ours."""

from __future__ import annotations

import pytest

from clusters.kubernetes.list_watch import Relist
from replicator.ops.metrics import Metrics

# operations.md section 5, the cases, and kubernetes.md, by their exposed names.
NAMES = (
    *("convergence_seconds", "propagation_seconds", "origin_staleness_seconds", "elements"),
    *(
        "tombstones",
        "addresses_hidden",
        "head_age_seconds",
        "digest_mismatch_total",
        "digest_repair_total",
    ),
    *("peer_rtt_seconds", "clock_skew_seconds", "session_bytes_total", "reconcile_seconds"),
    *("queue_depth", "queue_retries_total", "materialize_errors_total", "imports_waiting"),
    *("event_loop_lag_seconds", "load_score", "cert_expiry_seconds", "journal_commit_seconds"),
    *("tls_reload_errors_total", "encode_skipped_total", "encode_rejected_total"),
    *("encode_suspect_loop_total", "merge_same_tag_conflict_total", "source_file_errors"),
    *("watch_relists_total", "watch_unknown_event_total", "watch_last_event_age_seconds"),
    *("watch_task_restarts_total", "materialize_fight_total", "source_truncated"),
)


def samples(metrics: Metrics) -> dict[str, float]:
    """Every exposed series with its value."""
    lines = metrics.exposition().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def test_every_metric_is_there_before_anything_happened() -> None:
    text = Metrics("fjord").exposition().decode()
    for name in NAMES:
        family = name.removesuffix("_total")
        declared = f"# TYPE replicator_{name} " in text or f"# TYPE replicator_{family} " in text
        assert declared, name


def test_every_series_starts_at_0_and_has_the_prefix() -> None:
    found = samples(Metrics("fjord", ["mesa"]))
    assert set(found.values()) == {0.0}
    assert all(name.startswith("replicator_") for name in found)
    assert not any("_created" in name for name in found)


def test_known_clusters_peers_and_reasons_have_their_series_from_the_start() -> None:
    found = samples(Metrics("fjord", ["mesa"]))
    assert 'replicator_elements{kind="endpoint",origin="fjord"}' in found
    assert 'replicator_elements{kind="endpoint",origin="mesa"}' in found
    assert 'replicator_session_bytes_total{direction="sent",peer="mesa"}' in found
    assert 'replicator_session_bytes_total{direction="sent",peer="fjord"}' not in found
    assert 'replicator_convergence_seconds_count{origin="mesa"}' in found
    assert 'replicator_encode_rejected_total{reason="loopback"}' in found
    for reason in Relist:
        assert f'replicator_watch_relists_total{{reason="{reason.value}"}}' in found


def test_what_the_agent_reports_is_shown() -> None:
    metrics = Metrics("fjord", ["mesa"])
    metrics.observe_convergence("mesa", 0.09)
    metrics.observe_convergence("mesa", -0.01)
    metrics.observe_stage("publish", 0.002)
    metrics.observe_commit("own", 0.003)
    metrics.observe_reconcile("export", 0.004)
    metrics.set_elements("mesa", "endpoint", 1200)
    metrics.session_bytes("mesa", "sent", 512)
    metrics.inc("digest_mismatch_total")
    metrics.inc("materialize_errors", 2, reason="refused")
    metrics.set("load_score", 17)
    found = samples(metrics)
    assert found['replicator_convergence_seconds_count{origin="mesa"}'] == 2
    assert found['replicator_convergence_seconds_sum{origin="mesa"}'] == 0.09
    assert found['replicator_convergence_seconds_bucket{le="0.075",origin="mesa"}'] == 1
    assert found['replicator_propagation_seconds_count{stage="publish"}'] == 1
    assert found['replicator_journal_commit_seconds_count{store="own"}'] == 1
    assert found['replicator_reconcile_seconds_count{queue="export"}'] == 1
    assert found['replicator_elements{kind="endpoint",origin="mesa"}'] == 1200
    assert found['replicator_session_bytes_total{direction="sent",peer="mesa"}'] == 512
    assert found["replicator_digest_mismatch_total"] == 1
    assert found['replicator_materialize_errors_total{reason="refused"}'] == 2
    assert found["replicator_load_score"] == 17


def test_two_agents_in_one_process_do_not_meet() -> None:
    first, second = Metrics("fjord"), Metrics("fjord")
    first.inc("digest_repair")
    assert samples(second)["replicator_digest_repair_total"] == 0


def test_an_unknown_name_or_label_is_the_callers_defect() -> None:
    metrics = Metrics("fjord")
    with pytest.raises(KeyError):
        metrics.inc("digest_mismatches")
    with pytest.raises(ValueError, match="label"):
        metrics.inc("materialize_errors", cause="refused")


def test_a_cluster_that_left_takes_its_series_along() -> None:
    metrics = Metrics("fjord", ["mesa"])
    metrics.expect_origin("tundra")
    metrics.forget("mesa")
    text = metrics.exposition().decode()
    assert "mesa" not in text
    assert 'origin="tundra"' in text


def test_counters_of_a_cluster_are_taken_over_by_their_growth() -> None:
    metrics = Metrics("fjord")
    gone = 'watch_relists_total{reason="gone"}'
    metrics.absorb("source", {gone: 2, "source_file_errors": 1, "nothing_of_ours": 5, "a b": 1})
    metrics.absorb("source", {gone: 3, "source_file_errors": 4, "watch_unknown_event_total": 1})
    metrics.absorb("target", {gone: 1})
    metrics.absorb("source", {gone: 1, 'load_score{x="y"}': 5, "watch_relists_total": 9})
    found = samples(metrics)
    assert found[f"replicator_{gone}"] == 5  # 3, 1 of the target, 1 after the source began anew
    assert found["replicator_source_file_errors"] == 4
    assert found["replicator_watch_unknown_event_total"] == 1
    assert found["replicator_load_score"] == 0


def test_gauges_with_a_label_are_taken_over_too() -> None:
    metrics = Metrics("fjord")
    metrics.absorb("target", {'imports_waiting{reason="namespace"}': 2})
    assert samples(metrics)['replicator_imports_waiting{reason="namespace"}'] == 2
