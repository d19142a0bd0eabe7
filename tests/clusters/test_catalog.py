"""The index of a cluster's objects: what it answers, and whom a change touches."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from clusters.catalog import ServiceCatalog, Touched, services_of
from clusters.errors import ManifestError
from clusters.model import Endpoint, Manifest, Port, ServiceKey, Standing
from clusters.multicluster.names import derived_name
from clusters.settings import ExportMode, NamespaceFilter
from clusters.slices import SliceSettings, plan
from tests.clusters.makers import (
    CART,
    TRIGGER,
    addresses,
    catalog,
    endpoints_of,
    entry,
    object_of,
    slice_of,
)

NOTHING = Touched()
LOCAL = Touched(local=frozenset({CART}))
OWNED = Touched(owned=frozenset({CART}))


def versioned(manifest: Manifest, version: str, uid: str = "u-1") -> Manifest:
    found = copy.deepcopy(manifest)
    found["metadata"].update(uid=uid, resourceVersion=version)
    return found


def own_slice(service: str = "cart") -> Manifest:
    """A slice as our own writer makes it for cluster mesa."""
    remote = {"mesa": [Endpoint("10.40.1.4", (Port("http", 8080),))]}
    (change,) = plan(
        ServiceKey("shop", service), remote, [], settings=SliceSettings(), deletable=lambda _: True
    )
    return change.manifest


def test_objects_go_in_and_out_by_event() -> None:
    found = catalog()
    one = slice_of("cart-1", entry("10.20.1.4"))
    assert found.upsert(one) == LOCAL
    assert found.services() == {CART}
    assert addresses(found) == ["10.20.1.4"]
    assert found.delete(one) == LOCAL
    assert found.services() == frozenset()
    assert found.local(CART).endpoints == ()
    assert found.delete(one) == NOTHING


def test_e13_the_same_version_of_an_object_is_read_once() -> None:
    found = catalog()
    found.upsert(versioned(slice_of("cart-1", entry("10.20.1.4")), "7"))
    before = found.local(CART)
    assert found.upsert(versioned(slice_of("cart-1"), "7")) == NOTHING
    assert found.local(CART) is before


def test_e12_a_change_that_we_do_not_carry_touches_nothing() -> None:
    found = catalog()
    plain = versioned(slice_of("cart-1", entry("10.20.1.4")), "1")
    found.upsert(plain)
    before = found.local(CART)
    noisy = versioned(plain, "2")
    noisy["metadata"]["managedFields"] = [{"manager": "kcm"}]
    noisy["metadata"]["labels"]["team"] = "blue"
    noisy["futureTop"] = [1]
    noisy["endpoints"][0]["hints"] = {"forZones": [{"name": "zone-a"}]}
    assert found.upsert(noisy) == NOTHING
    assert found.local(CART) is before


def test_a_new_trigger_time_touches_only_where_another_slice_may_disagree() -> None:
    found = catalog()
    old, new = "2025-12-02T06:00:01Z", "2025-12-02T06:00:09Z"
    found.upsert(slice_of("a", entry("10.20.1.4", uid="p", ready=True), trigger=old))
    late = slice_of("a", entry("10.20.1.4", uid="p", ready=True), trigger=new)
    assert found.upsert(late) == NOTHING
    rival = "2025-12-02T06:00:05Z"
    found.upsert(slice_of("b", entry("10.20.1.4", uid="p", ready=False), trigger=rival))
    assert [item.ready for item in found.local(CART).endpoints] == [True]
    assert (
        found.upsert(slice_of("a", entry("10.20.1.4", uid="p", ready=True), trigger=old)) == LOCAL
    )
    assert [item.ready for item in found.local(CART).endpoints] == [False]


def test_e2_repeating_an_old_statement_is_no_later_change() -> None:
    found = catalog()
    old = slice_of("a", entry("10.20.1.4", uid="p", ready=True))
    found.upsert(old)
    found.upsert(slice_of("b", entry("10.20.1.4", uid="p", ready=False)))
    touched = copy.deepcopy(old)
    touched["metadata"]["labels"]["team"] = "blue"
    assert found.upsert(touched) == NOTHING
    assert [item.ready for item in found.local(CART).endpoints] == [False]
    again = slice_of("a", entry("10.20.1.4", uid="p", ready=True), entry("10.20.1.9"))
    found.upsert(again)
    assert [item.ready for item in found.local(CART).endpoints] == [True, True]


def test_e9_endpoints_behind_slices_touch_nothing_until_the_slices_go() -> None:
    found = catalog()
    one = slice_of("cart-1", entry("10.20.1.4"))
    found.upsert(one)
    assert found.upsert(endpoints_of("cart", {"addresses": [{"ip": "10.20.1.5"}]})) == NOTHING
    assert addresses(found) == ["10.20.1.4"]
    assert found.delete(one) == LOCAL
    assert addresses(found) == ["10.20.1.5"]
    assert found.upsert(endpoints_of("cart", {"addresses": [{"ip": "10.20.1.6"}]})) == LOCAL
    late = endpoints_of(
        "cart",
        {"addresses": [{"ip": "10.20.1.6"}]},
        annotations={"endpoints.kubernetes.io/last-change-trigger-time": "2025-12-02T06:00:05Z"},
    )
    assert found.upsert(late) == NOTHING


def test_e14_a_late_delete_of_a_predecessor_is_ignored() -> None:
    found = catalog()
    found.upsert(versioned(slice_of("cart-1", entry("10.20.1.4")), "9", uid="new"))
    assert found.delete(versioned(slice_of("cart-1"), "8", uid="old")) == NOTHING
    assert addresses(found) == ["10.20.1.4"]
    assert found.delete(slice_of("cart-1")) == LOCAL


def test_e14_the_service_object_going_and_coming_loses_no_endpoint() -> None:
    found = catalog()
    service = versioned(object_of("Service", "cart", spec={}), "1", uid="old")
    found.upsert(service)
    found.upsert(slice_of("cart-1", entry("10.20.1.4")))
    assert found.delete(service) == LOCAL
    assert addresses(found) == ["10.20.1.4"]
    found.upsert(versioned(service, "2", uid="new"))
    assert found.delete(service) == NOTHING
    assert found.local(CART).export is not None


def test_a_slice_that_changes_its_service_touches_both() -> None:
    found = catalog()
    found.upsert(slice_of("s", entry("10.20.1.4"), service="cart"))
    other = ServiceKey("shop", "till")
    touched = found.upsert(slice_of("s", entry("10.20.1.4"), service="till"))
    assert touched == Touched(local=frozenset({CART, other}))
    assert (addresses(found), addresses(found, other)) == ([], ["10.20.1.4"])


def test_a_list_is_compared_with_what_is_known() -> None:
    found = catalog()
    gone, same, changed = (
        slice_of(name, entry(f"10.20.1.{n}"), service=name)
        for n, name in enumerate(("gone", "same", "changed"), 4)
    )
    for manifest in (gone, same, changed):
        found.upsert(manifest)
    fresh = slice_of("changed", entry("10.20.1.99"), service="changed")
    bare = {key: value for key, value in same.items() if key not in {"kind", "apiVersion"}}
    broken: Any = {"metadata": {"name": "???"}}
    touched = found.replace_all("EndpointSlice", [bare, fresh, broken])
    assert {key.name for key in touched.local} == {"gone", "changed"}
    assert len(touched.errors) == 1
    assert {key.name for key in found.services()} == {"same", "changed"}
    assert found.replace_all("EndpointSlice", [bare, fresh])[:3] == NOTHING[:3]


def test_of_an_object_listed_twice_the_last_counts() -> None:
    found = catalog()
    found.replace_all("EndpointSlice", [slice_of("s", entry("10.20.1.4")), slice_of("s")])
    assert addresses(found) == []


def test_a_list_of_one_kind_leaves_the_others() -> None:
    found = catalog()
    found.upsert(slice_of("cart-1", entry("10.20.1.4")))
    assert found.replace_all("Endpoints", []) == NOTHING
    assert addresses(found) == ["10.20.1.4"]


@pytest.mark.parametrize(
    "manifest",
    [
        {"kind": "Pod", "metadata": {"name": "p"}},
        {"kind": "EndpointSlice", "apiVersion": "example.com/v1", "metadata": {"name": "p"}},
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410},
        {"kind": 5},
        {},
    ],
)
def test_other_kinds_are_ignored(manifest: Manifest) -> None:
    found = catalog()
    assert found.upsert(manifest) == NOTHING
    assert found.delete(manifest) == NOTHING
    assert found.unassigned() == ()


def test_an_object_without_a_name_is_refused_and_changes_nothing() -> None:
    found = catalog()
    with pytest.raises(ManifestError, match=r"metadata\.name"):
        found.upsert({"kind": "EndpointSlice", "metadata": {}})
    assert found.services() == frozenset()


def test_e11_slices_of_nobody_and_of_other_importers_are_counted_not_read() -> None:
    found = catalog()
    found.upsert(slice_of("stray", entry("10.20.1.4"), service=None))
    found.upsert(slice_of("stray2", entry("10.20.1.4"), service=""))
    imported = slice_of("imported", entry("10.40.0.9"))
    imported["metadata"]["labels"]["multicluster.kubernetes.io/source-cluster"] = "mesa"
    assert found.upsert(imported) == NOTHING
    locked = slice_of("lock", entry("10.20.1.4"))
    locked["metadata"]["annotations"] = {"control-plane.alpha.kubernetes.io/leader": "{}"}
    found.upsert(locked)
    assert [(item.reason, item.object) for item in found.unassigned()] == [
        ("imported", "EndpointSlice/shop/imported"),
        ("leader_election", "EndpointSlice/shop/lock"),
        ("no_service_label", "EndpointSlice/shop/stray"),
        ("no_service_label", "EndpointSlice/shop/stray2"),
    ]
    assert found.services() == frozenset()
    found.delete(imported)
    assert len(found.unassigned()) == 3


def test_a_slice_that_loses_its_label_leaves_its_service() -> None:
    found = catalog()
    found.upsert(slice_of("s", entry("10.20.1.4")))
    assert found.upsert(slice_of("s", entry("10.20.1.4"), service=None)) == LOCAL
    assert found.services() == frozenset()


def test_m8_our_own_slices_are_owned_and_never_local_however_stripped() -> None:
    mine = own_slice()
    assert catalog().upsert(mine) == OWNED
    for stripped in (("labels",), ("annotations",), ("labels", "annotations")):
        found = catalog()
        found.upsert(mine)
        bare = copy.deepcopy(mine)
        for field in stripped:
            bare["metadata"].pop(field)
        bare["metadata"]["labels"] = {"kubernetes.io/service-name": "cart"}
        assert found.upsert(bare) == OWNED
        assert found.owned(CART) == (bare,)
        assert found.services() == frozenset()
        assert found.delete(bare) == OWNED
        assert found.owned_services() == frozenset()


def test_m8_a_stripped_slice_never_seen_before_is_still_ours() -> None:
    found = catalog()
    bare = own_slice()
    del bare["metadata"]["annotations"], bare["metadata"]["labels"]
    assert found.upsert(bare) == NOTHING
    assert [item.reason for item in found.unassigned()] == ["own_output"]


def test_m8_ours_by_label_or_key_alone_under_another_name_is_ours() -> None:
    for field in ("labels", "annotations"):
        copied = own_slice()
        copied["metadata"] = {
            "name": "cart-x",
            "namespace": "shop",
            field: copied["metadata"][field],
        }
        assert catalog().upsert(copied) == OWNED


def test_owned_slices_are_told_from_their_next_version_only_by_content() -> None:
    found = catalog()
    found.upsert(versioned(own_slice(), "1"))
    newer = versioned(own_slice(), "2")
    newer["metadata"]["managedFields"] = []
    assert found.upsert(newer) == NOTHING
    assert found.owned(CART)[0]["metadata"]["resourceVersion"] == "2"
    edited = versioned(newer, "3")
    edited["endpoints"] = []
    assert found.upsert(edited) == OWNED


def test_e15_what_is_not_admitted_is_not_there_but_can_be_asked_for() -> None:
    system = ServiceKey("kube-system", "dns")
    objects = [
        slice_of("dns-1", entry("10.20.1.4"), service="dns", namespace="kube-system"),
        endpoints_of("dns", namespace="kube-system"),
        object_of("Service", "dns", namespace="kube-system"),
        slice_of("kubernetes", entry("192.0.2.1"), service="kubernetes", namespace="default"),
        slice_of("cart-1", entry("10.20.1.5")),
    ]
    found = catalog()
    for manifest in objects:
        found.upsert(manifest)
    assert found.services() == {CART}
    assert [(item.reason, item.object) for item in found.unassigned()] == [
        ("api_server", "EndpointSlice/default/kubernetes"),
        ("namespace_excluded", "EndpointSlice/kube-system/dns-1"),
        ("namespace_excluded", "Endpoints/kube-system/dns"),
    ]
    asked = NamespaceFilter(
        ("*", "kube-system"), (), frozenset({ServiceKey("default", "kubernetes")})
    )
    assert set(services_of(objects, cluster="fjord", namespaces=asked)) == {
        system,
        CART,
        ServiceKey("default", "kubernetes"),
    }


def test_e15_export_state_follows_its_object_whatever_comes_first() -> None:
    export = object_of("ServiceExport", "cart")
    one = slice_of("cart-1", entry("10.20.1.4"))
    for order in ([export, one], [one, export]):
        found = catalog(ExportMode.SERVICE_EXPORT)
        states = []
        for manifest in order:
            assert found.upsert(manifest) == LOCAL
            states.append(found.local(CART).export is not None)
        assert states == [False, True]
        assert found.delete(export) == LOCAL
        assert found.local(CART).export is None
        assert addresses(found) == ["10.20.1.4"]


def test_namespaces_are_known_once_seen() -> None:
    found = catalog()
    shop = versioned(object_of("Namespace", "shop"), "1")
    assert found.namespace_usable("shop") is None
    assert found.namespace_uid("shop") is None
    found.upsert(own_slice())
    changed = Touched(owned=frozenset({CART}), namespaces=frozenset({"shop"}))
    assert found.upsert(shop) == changed
    assert found.namespace_usable("shop") is True
    assert found.namespace_uid("shop") == "u-1"
    assert found.namespace_usable("other") is False
    assert found.upsert(versioned(shop, "2")) == NOTHING
    ending = versioned({**shop, "status": {"phase": "Terminating"}}, "3")
    assert found.upsert(ending) == changed
    assert found.namespace_usable("shop") is False
    assert found.delete(ending) == changed
    again = versioned(object_of("Namespace", "shop"), "4", uid="u-2")
    assert found.upsert(again) == changed
    doomed = versioned(again, "5", uid="u-2")
    doomed["metadata"]["deletionTimestamp"] = "2025-12-02T06:00:00Z"
    assert found.upsert(doomed) == changed


def test_an_empty_list_of_namespaces_says_that_there_are_none() -> None:
    found = catalog()
    found.replace_all("Namespace", [])
    assert found.namespace_usable("shop") is False


# ---- against the recompute from nothing --------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
SERVICES = st.sampled_from(["cart", "till", None])
ENTRIES = st.lists(
    st.builds(
        entry,
        st.sampled_from(["10.20.1.4", "10.20.1.5", "10.20.1.6", "127.0.0.1"]),
        uid=st.sampled_from(["p", "q"]),
        ready=st.booleans(),
    ),
    max_size=3,
)
TRIGGERS = st.integers(0, 10**6)
OBJECTS = st.one_of(
    st.builds(
        lambda name, service, entries: slice_of(name, *entries, service=service),
        NAMES,
        SERVICES,
        ENTRIES,
    ),
    st.builds(
        lambda name, ip: endpoints_of(name, {"addresses": [{"ip": ip}]}),
        st.sampled_from(["cart", "till"]),
        st.sampled_from(["10.20.1.4", "10.20.1.7"]),
    ),
    st.builds(
        lambda name, kind, spec: object_of("Service", name, spec={"type": kind, **spec}),
        st.sampled_from(["cart", "till"]),
        st.sampled_from(["ClusterIP", "ExternalName"]),
        st.sampled_from([{}, {"clusterIP": "None"}]),
    ),
)


class CatalogMachine(RuleBasedStateMachine):
    """Events in any order give what the objects give when read anew; no change goes untold."""

    def __init__(self) -> None:
        super().__init__()
        self.catalog = catalog()
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.told: dict[ServiceKey, object] = {}
        self.time = 0

    def _timed(self, manifest: Manifest) -> Manifest:
        """Every statement at a time of its own, so that the order of arrival plays no part."""
        self.time += 1
        found = copy.deepcopy(manifest)
        found["metadata"]["annotations"] = {TRIGGER: f"2025-12-02T06:00:00.{self.time:09}Z"}
        return found

    def _follow(self, touched: Touched) -> None:
        for key in touched.local:
            self.told[key] = self.catalog.local(key)

    @initialize(manifests=st.lists(OBJECTS, max_size=3))
    def start(self, manifests: list[Manifest]) -> None:
        for manifest in manifests:
            self.put(manifest)

    @rule(manifest=OBJECTS)
    def put(self, manifest: Manifest) -> None:
        timed = self._timed(manifest)
        self.objects[timed["kind"], timed["metadata"]["name"]] = timed
        self._follow(self.catalog.upsert(timed))

    @rule(manifest=OBJECTS)
    def drop(self, manifest: Manifest) -> None:
        self.objects.pop((manifest["kind"], manifest["metadata"]["name"]), None)
        self._follow(self.catalog.delete(manifest))

    @rule(kind=st.sampled_from(["EndpointSlice", "Endpoints", "Service"]), data=st.data())
    def relist(self, kind: str, data: st.DataObject) -> None:
        kept = [item for item in self.objects.values() if item["kind"] == kind]
        kept = [item for item in kept if data.draw(st.booleans())]
        self.objects = {
            name: item
            for name, item in self.objects.items()
            if item["kind"] != kind or item in kept
        }
        self._follow(self.catalog.replace_all(kind, data.draw(st.permutations(kept))))

    @invariant()
    def answers_are_those_of_a_fresh_reading(self) -> None:
        fresh = services_of(self.objects.values(), cluster="fjord")
        assert self.catalog.services() == set(fresh)
        for key in {*fresh, *self.told}:
            answer = self.catalog.local(key)
            if key in fresh:
                assert answer == fresh[key]
            assert self.told.get(key, answer) == answer


TestCatalogMachine = CatalogMachine.TestCase


@given(st.lists(OBJECTS, max_size=6))
def test_services_of_answers_for_every_service_in_order(objects: list[Manifest]) -> None:
    found = services_of(objects, cluster="fjord")
    assert list(found) == sorted(found)
    assert all(local.key == key for key, local in found.items())


# ---- the Multi-Cluster Services API ----------------------------------------------------------


def multicluster() -> ServiceCatalog:
    return ServiceCatalog(
        cluster="fjord",
        export=ExportMode.SERVICE_EXPORT,
        namespaces=NamespaceFilter(),
        multicluster=True,
    )


OF_IMPORT = {
    "apiVersion": "multicluster.x-k8s.io/v1beta1",
    "kind": "ServiceImport",
    "name": "cart",
    "uid": "1",
}


def derived(**metadata: Any) -> dict[str, Any]:
    metadata.setdefault("ownerReferences", [OF_IMPORT])
    return object_of("Service", derived_name(CART), metadata=metadata)


def service_import(**fields: Any) -> dict[str, Any]:
    found = object_of("ServiceImport", "cart", **fields)
    return {**found, "apiVersion": "multicluster.x-k8s.io/v1beta1"}


def test_a_derived_service_is_never_a_service_of_the_cluster_itself() -> None:
    for found in (catalog(ExportMode.ALL), multicluster()):
        found.upsert(derived())
        found.upsert(object_of("Service", "derived-x", metadata={"ownerReferences": [OF_IMPORT]}))
        assert found.services() == frozenset()
        assert found.unassigned() == ()


def test_imports_and_derived_services_are_ours_only_where_the_api_is_spoken() -> None:
    plain = catalog(ExportMode.ALL)
    assert plain.upsert(service_import()).owned == frozenset()
    assert plain.upsert(derived()).owned == frozenset()
    assert plain.owned_services() == frozenset()
    found = multicluster()
    assert found.upsert(service_import()).owned == {CART}
    assert found.upsert(derived()).owned == {CART}
    assert [item["kind"] for item in found.owned(CART)] == ["Service", "ServiceImport"]
    assert found.delete(derived()).owned == {CART}
    assert found.replace_all("ServiceImport", []).owned == {CART}
    assert found.owned_services() == frozenset()


def test_the_status_of_an_export_is_news_to_its_writer_only() -> None:
    found = multicluster()
    found.upsert(object_of("Service", "cart", spec={"ports": [{"port": 80}]}))
    export = object_of("ServiceExport", "cart", metadata={"generation": 1})
    assert found.upsert(export) == Touched(frozenset({CART}), frozenset({CART}))
    told = {**export, "status": {"conditions": []}}
    assert found.upsert(told) == Touched(owned=frozenset({CART}))
    assert found.owned(CART) == (told,)
    again = {**told, "metadata": {**told["metadata"], "resourceVersion": "7"}}
    assert found.upsert(again) == Touched()
    newer = {**told, "metadata": {**told["metadata"], "generation": 2}}
    assert found.upsert(newer) == Touched(owned=frozenset({CART}))
    labelled = {**newer, "spec": {"exportedLabels": {"a": "b"}}}
    assert found.upsert(labelled) == Touched(frozenset({CART}), frozenset({CART}))
    assert found.delete(labelled) == Touched(frozenset({CART}), frozenset({CART}))
    assert found.owned_services() == frozenset()
    assert catalog(ExportMode.SERVICE_EXPORT).upsert(export).owned == frozenset()


def test_a_local_service_says_what_an_export_finds() -> None:
    found = multicluster()
    assert found.local(CART).standing is Standing.NO_SERVICE
    found.upsert(object_of("ServiceExport", "cart"))
    assert found.local(CART).standing is Standing.NO_SERVICE
    found.upsert(object_of("Service", "cart", spec={"type": "ExternalName"}))
    assert found.local(CART).standing is Standing.INVALID_TYPE
    found.upsert(object_of("Service", "cart", spec={"type": "ClusterIP"}))
    assert found.local(CART).standing is Standing.VALID
