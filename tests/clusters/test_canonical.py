"""How several objects make one service (kubernetes.md E1, E2, E5, E9)."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.canonical import combine
from clusters.manifests import reference
from clusters.model import Endpoint, Manifest
from clusters.readings import Reading, read_endpoints, read_slice
from tests.clusters.makers import endpoints_of, entry, slice_of

EARLY, LATE = "2025-12-02T06:00:05Z", "2025-12-02T06:00:09Z"


def endpoints(*slices: Manifest) -> list[Endpoint]:
    """What slices mean when they arrived in the order given."""
    readings = [read(manifest, arrival) for arrival, manifest in enumerate(slices)]
    return list(combine(readings, None)[0])


def read(manifest: Manifest, arrival: int = 0) -> Reading:
    return read_slice(manifest, reference(manifest), arrival)


def states(found: list[Endpoint]) -> list[tuple[str, bool, bool, bool]]:
    return [(item.address, item.ready, item.serving, item.terminating) for item in found]


def test_e1_the_set_is_the_union_of_all_slices() -> None:
    one = slice_of("a", entry("10.20.1.4"), entry("10.20.1.5"))
    two = slice_of("b", entry("10.20.1.4"), entry("10.20.1.6"))
    assert [item.address for item in endpoints(one, two)] == ["10.20.1.4", "10.20.1.5", "10.20.1.6"]
    assert [item.address for item in endpoints(two)] == ["10.20.1.4", "10.20.1.6"]
    assert endpoints() == []


def test_e2_of_one_pod_the_later_trigger_time_wins_in_any_order() -> None:
    old = slice_of("a", entry("10.20.1.4", uid="p", ready=True), trigger=EARLY)
    new = slice_of("b", entry("10.20.1.4", uid="p", ready=False), trigger=LATE)
    for order in permutations([old, new]):
        assert states(endpoints(*order)) == [("10.20.1.4", False, False, False)]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("2025-12-02T06:00:05.1Z", "2025-12-02T06:00:05.100000001Z"),
        ("2025-12-02T06:00:05Z", "2025-12-02T06:00:05.000001Z"),
        ("2025-12-02T09:00:00+03:00", "2025-12-02T06:00:01Z"),
        ("2025-12-02T06:00:09Z", "2025-12-02T05:30:10-01:00"),
        ("2025-12-02T06:00:09.9Z", "2025-12-02T06:00:10Z"),
    ],
)
def test_e2_trigger_times_are_compared_as_times(earlier: str, later: str) -> None:
    old = slice_of("a", entry("10.20.1.4", uid="p", ready=True), trigger=earlier)
    new = slice_of("b", entry("10.20.1.4", uid="p", ready=False), trigger=later)
    for order in permutations([old, new]):
        assert [item.ready for item in endpoints(*order)] == [False]


@pytest.mark.parametrize(
    "triggers", [(None, None), (EARLY, None), (None, LATE), (EARLY, EARLY), ("soon", "later")]
)
def test_e2_of_one_pod_without_two_times_the_later_change_wins(
    triggers: tuple[str | None, str | None],
) -> None:
    first = slice_of("b", entry("10.20.1.4", uid="p", ready=True), trigger=triggers[0])
    second = slice_of("a", entry("10.20.1.4", uid="p", ready=False), trigger=triggers[1])
    assert [item.ready for item in endpoints(first, second)] == [False]
    if triggers[0] == triggers[1]:
        assert [item.ready for item in endpoints(second, first)] == [True]


def test_e2_among_three_statements_times_decide_first_and_then_arrival() -> None:
    timed_late = slice_of("a", entry("10.20.1.4", uid="p", hostname="a"), trigger=LATE)
    timed_early = slice_of("b", entry("10.20.1.4", uid="p", hostname="b"), trigger=EARLY)
    untimed = slice_of("c", entry("10.20.1.4", uid="p", hostname="c"))
    assert endpoints(timed_late, timed_early, untimed)[0].hostname == "c"
    assert endpoints(untimed, timed_early, timed_late)[0].hostname == "a"
    assert endpoints(untimed, timed_late, timed_early)[0].hostname == "a"


@pytest.mark.parametrize("uids", [("old", "new"), (None, None), ("old", None)])
def test_e2_of_different_pods_ready_then_serving_then_not_terminating_wins(
    uids: tuple[str | None, str | None],
) -> None:
    ladder = [
        {"ready": False, "serving": False, "terminating": True},
        {"ready": False, "serving": False, "terminating": False},
        {"ready": False, "serving": True, "terminating": True},
        {"ready": True, "serving": True, "terminating": True},
        {"ready": True, "serving": True, "terminating": False},
    ]
    for worse, better in pairwise(ladder):
        dying = slice_of("a", entry("10.20.1.4", uid=uids[0], **worse), trigger=LATE)
        fresh = slice_of("b", entry("10.20.1.4", uid=uids[1], **better), trigger=EARLY)
        for order in permutations([dying, fresh]):
            (found,) = endpoints(*order)
            assert states([found]) == [("10.20.1.4", *better.values())]


def test_e2_equal_different_pods_are_decided_by_time_and_then_the_same_everywhere() -> None:
    one = slice_of("a", entry("10.20.1.4", uid="1", nodeName="n-1"), trigger=EARLY)
    two = slice_of("b", entry("10.20.1.4", uid="2", nodeName="n-2"), trigger=LATE)
    for order in permutations([one, two]):
        assert endpoints(*order)[0].node == "n-2"
    two["metadata"]["annotations"] = one["metadata"]["annotations"]
    assert len({endpoints(*order)[0] for order in permutations([one, two])}) == 1


def test_e2_a_new_pod_on_an_old_address_beats_what_its_predecessor_said_last() -> None:
    dying_then = slice_of("a", entry("10.20.1.4", uid="old", ready=True), trigger=EARLY)
    dying_now = slice_of("b", entry("10.20.1.4", uid="old", ready=False), trigger=LATE)
    fresh = slice_of("c", entry("10.20.1.4", uid="new", ready=False, serving=True))
    for order in permutations([dying_then, dying_now, fresh]):
        assert endpoints(*order)[0].pod == "pod-new"


def test_one_address_named_twice_in_one_slice_is_one_endpoint() -> None:
    twice = slice_of("a", entry("10.20.1.4", ready=False), entry("10.20.1.4", ready=True))
    assert states(endpoints(twice)) == [("10.20.1.4", True, True, False)]


def test_e5_one_port_name_with_two_numbers_makes_two_endpoints() -> None:
    old = slice_of("a", entry("10.20.1.4"), ports=[{"name": "http", "port": 8080}])
    new = slice_of("b", entry("10.20.1.4"), ports=[{"name": "http", "port": 9090}])
    every = slice_of("c", entry("10.20.1.4"), ports=None)
    found = endpoints(new, old, every)
    assert [item.ports and item.ports[0].port for item in found] == [None, 8080, 9090]


def test_endpoints_are_sorted_by_family_number_and_ports() -> None:
    four = slice_of("a", entry("10.20.1.10"), entry("9.9.9.9"), entry("10.20.1.9"))
    six = slice_of("b", entry("2001:db8::10"), entry("2001:db8::9"), family="IPv6")
    assert [item.address for item in endpoints(six, four)] == [
        "9.9.9.9",
        "10.20.1.9",
        "10.20.1.10",
        "2001:db8::9",
        "2001:db8::10",
    ]


def test_e9_an_endpoints_object_counts_only_without_any_slice() -> None:
    manifest = endpoints_of("cart", {"addresses": [{"ip": "10.20.9.9"}]})
    fallback = read_endpoints(manifest, reference(manifest), 1)
    assert [item.address for item in combine([], fallback)[0]] == ["10.20.9.9"]
    named = read(slice_of("a", entry("api.partner.example"), family="FQDN"))
    found, skipped = combine([named], fallback)
    assert found == ()
    assert [item.reason for item in skipped] == ["fqdn"]


def test_e9_ready_wins_inside_one_subset_and_all_subsets_count() -> None:
    port, other = [{"port": 80}], [{"port": 81}]
    manifest = endpoints_of(
        "cart",
        {
            "notReadyAddresses": [{"ip": "10.20.1.4"}],
            "addresses": [{"ip": "10.20.1.4"}],
            "ports": port,
        },
        {"notReadyAddresses": [{"ip": "10.20.1.4"}], "ports": other},
    )
    found, _ = combine([], read_endpoints(manifest, reference(manifest), 1))
    assert [(item.ports and item.ports[0].port, item.ready) for item in found] == [
        (80, True),
        (81, False),
    ]


ENTRIES = st.lists(
    st.builds(
        entry,
        st.integers(1, 12).map(lambda n: f"10.20.1.{n}"),
        uid=st.sampled_from(["p", "q"]),
        ready=st.sampled_from([True, False, None]),
        hostname=st.sampled_from([None, "db-0"]),
    ),
    max_size=12,
    unique_by=lambda item: item["addresses"][0],
)


@given(ENTRIES, st.data())
def test_any_split_of_the_same_endpoints_over_slices_means_the_same(
    entries: list[Manifest], data: st.DataObject
) -> None:
    whole = endpoints(slice_of("whole", *entries))
    parts: list[list[Manifest]] = [[], [], []]
    for item in entries:
        for part in data.draw(st.sets(st.integers(0, 2), min_size=1)):
            parts[part].append(item)
    slices = [slice_of(f"s{number}", *part) for number, part in enumerate(parts)]
    assert endpoints(*data.draw(st.permutations(slices))) == whole


SLICES = st.lists(
    st.builds(
        slice_of,
        st.just("s"),
        st.builds(
            entry,
            st.just("10.20.1.4"),
            uid=st.sampled_from(["p", "q", None]),
            ready=st.sampled_from([True, False]),
            serving=st.sampled_from([True, False]),
            terminating=st.sampled_from([True, False]),
            nodeName=st.sampled_from(["n-1", "n-2"]),
        ),
        trigger=st.integers(0, 59).map(lambda n: f"2025-12-02T06:00:{n:02}Z"),
    ),
    max_size=6,
    unique_by=lambda item: item["metadata"]["annotations"][
        "endpoints.kubernetes.io/last-change-trigger-time"
    ],
)


@given(SLICES, st.data())
def test_order_never_matters_when_trigger_times_differ(
    slices: list[Manifest], data: st.DataObject
) -> None:
    assert endpoints(*data.draw(st.permutations(slices))) == endpoints(*slices)


@given(SLICES, st.data())
def test_the_result_depends_on_arrival_numbers_and_not_on_the_order_given(
    slices: list[Manifest], data: st.DataObject
) -> None:
    readings = [read(manifest, arrival) for arrival, manifest in enumerate(slices)]
    assert combine(data.draw(st.permutations(readings)), None) == combine(readings, None)
