"""Laws of the merge: the order of arrival means nothing, and the young never disturb the old."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clusters.model import Endpoint, ExportedService, Port
from clusters.multicluster.conflicts import messages, reasons
from clusters.multicluster.merge import Merged, carried_endpoints, merge
from tests.clusters.makers import endpoint_sets, json_values
from tests.clusters.multicluster.bed import export

port = st.fixed_dictionaries(
    {"port": st.sampled_from([53, 80, 81])},
    optional={
        "name": st.sampled_from(["", "http", "dns", "web"]),
        "protocol": st.sampled_from(["TCP", "UDP"]),
        "appProtocol": st.sampled_from(["http", "h2c"]),
    },
)
properties = st.fixed_dictionaries(
    {"ports": st.lists(port, max_size=3)},
    optional={
        "type": st.sampled_from(["Headless", "ClusterSetIP"]),
        "sessionAffinity": st.sampled_from(["None", "ClientIP"]),
        "internalTrafficPolicy": st.sampled_from(["Cluster", "Local"]),
        "trafficDistribution": st.sampled_from(["PreferClose", "PreferSameNode"]),
        "ipFamilies": st.sampled_from([["IPv4"], ["IPv6"], ["IPv6", "IPv4"]]),
        "exportedLabels": st.sampled_from([{"a": "1"}, {"a": "2"}]),
        "exportedAnnotations": st.sampled_from([{"b": "1"}, {"b": "2"}]),
    },
)
CLUSTERS = ["atoll", "fjord", "mesa", "tundra"]


def exported(at: int | None, fields: dict[str, Any]) -> ExportedService:
    return export(at, **fields)


exports = st.dictionaries(
    st.sampled_from(CLUSTERS),
    st.builds(exported, st.one_of(st.none(), st.integers(0, 3)), properties),
    max_size=4,
)


def served(found: Merged | None, cluster: str) -> tuple[set[Port], frozenset[str]]:
    """Ports of the service that lead to ``cluster``, and their names."""
    if found is None:
        return set(), frozenset()
    names = found.carried(cluster)
    return {port for port in found.ports if port.name in names}, names


@given(exports, st.randoms(use_true_random=False))
def test_any_order_of_exports_gives_the_same_result(
    given_exports: dict[str, ExportedService], rng: Any
) -> None:
    shuffled = list(given_exports.items())
    rng.shuffle(shuffled)
    assert merge(dict(shuffled)) == merge(given_exports)


@given(exports, properties, endpoint_sets)
def test_a_younger_export_never_changes_what_an_older_one_serves(
    given_exports: dict[str, ExportedService], fields: dict[str, Any], endpoints: list[Endpoint]
) -> None:
    before = merge(given_exports)
    after = merge({**given_exports, "zephyr": exported(4, fields)})
    assert after is not None
    aged = [item for item in given_exports.values() if item.created_at is not None]
    if before is None or len(aged) < len(given_exports):
        return
    assert after.oldest == before.oldest
    assert set(before.ports) <= set(after.ports)
    for cluster in given_exports:
        assert served(after, cluster) == served(before, cluster)
        if before.offers[cluster].ports:
            assert carried_endpoints(after, cluster, endpoints) == carried_endpoints(
                before, cluster, endpoints
            )


@given(exports)
def test_ports_can_stand_in_one_service_and_each_comes_from_somewhere(
    given_exports: dict[str, ExportedService],
) -> None:
    found = merge(given_exports)
    if found is None:
        assert not given_exports
        return
    names = [port.name for port in found.ports]
    pairs = [(port.protocol, port.port) for port in found.ports]
    assert len(set(names)) == len(names) == len(set(pairs))
    assert len(names) < 2 or all(names)
    assert set(names) == frozenset().union(*(found.carried(cluster) for cluster in given_exports))
    declared = {offer.ports for offer in found.offers.values()}
    assert ("PortConflict" in reasons(found.conflicts)) == (len(declared) > 1)
    for conflict in found.conflicts:
        assert conflict.message.endswith(f"/{len(found.offers)} clusters disagree")
    assert not messages(()) + reasons(())


@given(exports, endpoint_sets)
def test_endpoints_keep_their_address_and_lose_at_most_ports(
    given_exports: dict[str, ExportedService], endpoints: list[Endpoint]
) -> None:
    found = merge(given_exports)
    for cluster in given_exports:
        assert found is not None
        carried = carried_endpoints(found, cluster, endpoints)
        assert len({item.identity for item in carried}) == len(carried)
        given_ports = {item.address: item.ports for item in endpoints}
        for item in carried:
            assert item.address in given_ports
            assert item.ports != ()


names = st.sampled_from(
    [
        *("type", "ports", "sessionAffinity", "sessionAffinityConfig", "internalTrafficPolicy"),
        *("trafficDistribution", "ipFamilies", "exportedLabels", "exportedAnnotations"),
    ]
)


@given(st.dictionaries(names, json_values), st.one_of(st.none(), st.text(max_size=30)))
def test_whatever_another_cluster_states_the_merge_does_not_fail(
    fields: dict[str, Any], created_at: str | None
) -> None:
    stated = ExportedService(created_at, tuple(sorted(fields.items())))
    typed = ExportedService(created_at, tuple(sorted({**fields, "type": "Headless"}.items())))
    merge({"mesa": stated, "atoll": export(0)})
    found = merge({"mesa": typed, "atoll": export(None)})
    assert found is not None
    assert list(found.offers) == ["atoll", "mesa"]
