"""``replicator plan``: elements in, the objects or writes of a cluster out."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.manifests import Located
from clusters.model import Endpoint, Port, ServiceKey
from clusters.multicluster.names import derived_name
from crdt import Stamp
from replicator.errors import InputError
from replicator.items import Item, item_of, parse_item
from replicator.planning import plan_objects, read_items
from tests.clusters.makers import (
    CART,
    endpoint,
    endpoint_sets,
    entry,
    json_values,
    object_of,
    slice_of,
)
from tests.replicator.cli.offline import run, run_both, run_json

HTTP = (Port("http", 8080),)
Capture = pytest.CaptureFixture[str]


def item(number: int = 4, cluster: str = "mesa", at: int = 1, **fields: Any) -> dict[str, Any]:
    found = Endpoint(f"10.40.1.{number}", HTTP, **fields)
    return item_of(CART, found, Stamp(at, cluster))


def write(folder: Path, name: str, document: object) -> str:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document), "utf-8")
    return str(path)


def document(*items: dict[str, Any]) -> dict[str, Any]:
    return {"cluster": "mesa", "items": list(items), "skipped": []}


def test_c78_c24_what_encode_wrote_in_one_cluster_is_what_another_would_hold(
    tmp_path: Path, capsys: Capture
) -> None:
    source = slice_of(
        "cart-1",
        entry(
            "10.40.1.4",
            uid="p0",
            ready=False,
            serving=True,
            terminating=True,
            nodeName="n-1",
            zone="zone-a",
            hints={"forZones": [{"name": "zone-a"}]},
        ),
    )
    path = write(tmp_path, "mesa.yaml", yaml.safe_dump(source))
    elements = write(tmp_path, "e.json", run(capsys, "encode", path, "--cluster", "mesa"))
    found = run_json(capsys, "plan", elements, "--cluster", "fjord")
    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    (manifest,) = found["items"]
    assert manifest["endpoints"] == [
        {
            "addresses": ["10.40.1.4"],
            "conditions": {"ready": False, "serving": True, "terminating": True},
        }
    ]
    labels = manifest["metadata"]["labels"]
    assert labels["multicluster.kubernetes.io/source-cluster"] == "mesa"
    assert "kubernetes.io/service-name" not in labels
    as_yaml = run(capsys, "plan", elements, "--cluster", "fjord", "-o", "yaml")
    assert yaml.safe_load(as_yaml) == found
    again = write(tmp_path, "e.yaml", yaml.safe_dump(json.loads(Path(elements).read_text("utf-8"))))
    assert run_json(capsys, "plan", again, "--cluster", "fjord") == found


def test_c70_what_was_planned_is_not_encoded_again_however_stripped(
    tmp_path: Path, capsys: Capture
) -> None:
    elements = write(tmp_path, "e.json", document(item()))
    planned = run_json(capsys, "plan", elements, "--cluster", "fjord", "--mode", "directory")
    stripped = copy.deepcopy(planned)
    metadata = stripped["items"][0]["metadata"]
    metadata["labels"] = {"kubernetes.io/service-name": "cart"}
    del metadata["annotations"]
    for number, objects in enumerate((planned, stripped)):
        path = write(tmp_path, f"{number}.json", objects)
        found = run_json(capsys, "encode", path, "--cluster", "fjord")
        assert found["items"] == []
        assert [row["reason"] for row in found["skipped"]] == ["own_output"]


def test_c68_with_existing_the_writes_are_shown_and_a_second_pass_has_none(
    tmp_path: Path, capsys: Capture
) -> None:
    elements = write(tmp_path, "e.json", document(item(4), item(5)))
    nothing = write(tmp_path, "none.yaml", "")
    first = run_json(capsys, "plan", elements, "--cluster", "fjord", "--existing", nothing)
    assert set(first) == {"creates", "updates", "deletes"}
    assert [len(first[name]) for name in ("creates", "updates", "deletes")] == [1, 0, 0]
    listed = {"kind": "List", "apiVersion": "v1", "items": first["creates"]}
    existing = write(tmp_path, "have.json", listed)
    arguments = ("plan", elements, "--cluster", "fjord", "--existing", existing)
    assert run_json(capsys, *arguments) == {"creates": [], "updates": [], "deletes": []}
    changed = write(tmp_path, "e2.json", document(item(4, ready=False), item(5)))
    again = run_json(capsys, "plan", changed, "--cluster", "fjord", "--existing", existing)
    assert [len(again[name]) for name in ("creates", "updates", "deletes")] == [0, 1, 0]
    gone = write(tmp_path, "e3.json", document())
    last = run_json(capsys, "plan", gone, "--cluster", "fjord", "--existing", existing)
    assert last["deletes"] == first["creates"]


def test_existing_objects_of_others_are_left_alone(tmp_path: Path, capsys: Capture) -> None:
    elements = write(tmp_path, "e.json", document())
    existing = write(tmp_path, "have.yaml", yaml.safe_dump(slice_of("a", entry("10.20.1.4"))))
    found = run_json(capsys, "plan", elements, "--cluster", "fjord", "--existing", existing)
    assert found == {"creates": [], "updates": [], "deletes": []}


def test_own_endpoints_are_not_written_in_their_own_cluster(
    tmp_path: Path, capsys: Capture
) -> None:
    elements = write(tmp_path, "e.json", document(item(4, "mesa"), item(5, "fjord")))
    found = run_json(capsys, "plan", elements, "--cluster", "fjord")
    assert [row["endpoints"][0]["addresses"] for row in found["items"]] == [["10.40.1.4"]]


def test_several_files_are_read_together_and_the_newest_statement_counts(
    tmp_path: Path, capsys: Capture
) -> None:
    old = write(tmp_path, "1.json", document(item(4, at=9, ready=False)))
    new = write(tmp_path, "2.json", document(item(4, at=10), item(5, "tundra")))
    for order in ((old, new), (new, old)):
        found = run_json(capsys, "plan", *order, "--cluster", "fjord")
        states = [row["endpoints"][0]["conditions"]["ready"] for row in found["items"]]
        assert states == [True, True]


def test_what_cannot_be_written_is_told_on_stderr(tmp_path: Path, capsys: Capture) -> None:
    twice = item(6)
    twice["ports"] = [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]
    hidden = {**item(7), "address": "127.0.0.1"}
    spelled = {**item(7), "address": "2001:DB8::1"}
    path = write(tmp_path, "e.json", document(item(4), twice, hidden, spelled))
    out, err = run_both(capsys, "plan", path, "--cluster", "fjord")
    assert len(json.loads(out)["items"]) == 1
    assert err.splitlines() == [
        "warning: shop/cart of mesa: '127.0.0.1' must not be visible",
        "warning: shop/cart of mesa: '2001:DB8::1' must not be visible",
        "warning: shop/cart of mesa: 1 endpoints not written: duplicate_port_name",
    ]


def mcs(capsys: Capture, path: str, *arguments: str) -> Any:
    return run_json(capsys, "plan", path, "--cluster", "fjord", "--mode", "mcs", *arguments)


def snapshot_entries(**exports: dict[str, Any]) -> dict[str, Any]:
    """Entries of a snapshot: each cluster exports the service and has one endpoint."""
    rows: list[dict[str, Any]] = []
    for number, (cluster, properties) in enumerate(exports.items()):
        tag = f"{cluster}:{number + 1}"
        created = f"2026-03-01T10:00:0{number}Z"
        value = {"created_at": created, "properties": {"type": "ClusterSetIP", **properties}}
        element = ["export", cluster, "shop", "cart"]
        rows.append({"element": element, "op": "add", "tag": tag, "value": value})
        ports = [["http", 8080, "TCP", None]]
        element = ["endpoint", cluster, "shop", "cart", f"10.40.{number}.4", ports]
        rows.append({"element": element, "op": "add", "tag": tag, "value": {}})
    return {"entries": rows}


DECLARED = {"ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}


def test_mcs_mode_of_elements_writes_slices_of_all_clusters_without_an_owner(
    tmp_path: Path, capsys: Capture
) -> None:
    path = write(tmp_path, "e.json", document(item(4, "mesa"), item(5, "fjord")))
    found = mcs(capsys, path)["items"]
    assert [row["kind"] for row in found] == ["EndpointSlice", "EndpointSlice"]
    for row in found:
        assert "ownerReferences" not in row["metadata"]
        labels = row["metadata"]["labels"]
        assert labels["kubernetes.io/service-name"] == derived_name(CART)
    sources = [
        row["metadata"]["labels"]["multicluster.kubernetes.io/source-cluster"] for row in found
    ]
    assert sources == ["fjord", "mesa"]


@pytest.mark.parametrize(("kind", "proxied"), [("ClusterSetIP", True), ("Headless", False)])
def test_mcs_mode_of_elements_takes_the_import_that_exists_for_owner(
    tmp_path: Path, capsys: Capture, kind: str, *, proxied: bool
) -> None:
    path = write(tmp_path, "e.json", document(item(4)))
    there = object_of("ServiceImport", "cart", metadata={"uid": "u-1"}, spec={"type": kind})
    there["apiVersion"] = "multicluster.x-k8s.io/v1beta1"
    existing = write(tmp_path, "have.yaml", yaml.safe_dump(there))
    writes = mcs(capsys, path, "--existing", existing)
    assert (writes["updates"], writes["deletes"]) == ([], [])
    (made,) = writes["creates"]
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ServiceImport", "cart", "u-1")
    assert ("kubernetes.io/service-name" in made["metadata"]["labels"]) == proxied


def test_mcs_mode_of_a_snapshot_plans_the_whole_import(tmp_path: Path, capsys: Capture) -> None:
    stated = snapshot_entries(mesa=DECLARED, fjord={**DECLARED, "type": "Headless"})
    path = write(tmp_path, "s.json", stated)
    found = mcs(capsys, path)["items"]
    assert [row["kind"] for row in found] == [
        *("EndpointSlice", "EndpointSlice", "Service", "ServiceImport")
    ]
    assert found[-1]["spec"]["type"] == "ClusterSetIP"
    assert found[-2]["metadata"]["name"] == derived_name(CART)
    again = write(tmp_path, "have.json", {"kind": "List", "items": found})
    writes = mcs(capsys, path, "--existing", again)
    (told,) = (row for row in writes["updates"] if row["kind"] == "ServiceImport")
    assert told["status"]["clusters"] == [{"cluster": "fjord"}, {"cluster": "mesa"}]
    nothing = write(tmp_path, "n.json", {"entries": []})
    gone = mcs(capsys, nothing, "--existing", again)
    assert [len(gone[name]) for name in ("creates", "updates", "deletes")] == [0, 0, 4]


def test_mcs_mode_leaves_an_import_of_others_alone_and_says_so(
    tmp_path: Path, capsys: Capture
) -> None:
    path = write(tmp_path, "s.json", snapshot_entries(mesa=DECLARED))
    there = object_of("ServiceImport", "cart", metadata={"uid": "u-1"}, spec={})
    there["apiVersion"] = "multicluster.x-k8s.io/v1beta1"
    objects = [there, object_of("ServiceExport", "cart")]
    existing = write(tmp_path, "have.yaml", yaml.safe_dump_all(objects))
    arguments = ("plan", path, "--cluster", "fjord", "--mode", "mcs", "--existing", existing)
    out, err = run_both(capsys, *arguments)
    assert [row["kind"] for row in json.loads(out)["creates"]] == ["EndpointSlice"]
    assert err == "warning: shop/cart: the ServiceImport that exists is not ours\n"


def test_kubernetes_objects_are_not_taken_for_elements(tmp_path: Path, capsys: Capture) -> None:
    raw = {"apiVersion": "v1", "kind": "List", "items": [slice_of("cart-1", entry("10.40.1.4"))]}
    for mode in ([], ["--mode", "mcs"]):
        with pytest.raises(InputError, match=r"items\[0\] is a Kubernetes object") as caught:
            run_json(capsys, "plan", write(tmp_path, "raw.json", raw), "--cluster", "fjord", *mode)
        assert "replicator encode" in caught.value.cure


@pytest.mark.parametrize("value", [{"properties": 5}, {"properties": {}, "created_at": 5}])
def test_mcs_mode_names_an_export_state_that_is_none(
    tmp_path: Path, capsys: Capture, value: Any
) -> None:
    row = {"element": ["export", "mesa", "shop", "cart"], "op": "add", "tag": "mesa:1"}
    path = write(tmp_path, "s.json", {"entries": [{**row, "value": value}]})
    with pytest.raises(InputError, match=r"entries\[0\].*no export state"):
        mcs(capsys, path)


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        (1764655200123456789, "tag_not_string"),
        (1764655200.5, "tag_not_string"),
        (None, "tag_not_string"),
        ({}, "tag_not_string"),
        ("mesa:1764655200123456789.0", "bad_tag"),
        ("mesa:+1764655200123456789", "bad_tag"),
        ("mesa:01764655200123456789", "bad_tag"),
        ("mesa:1_764_655_200_123_456_789", "bad_tag"),
        ("mesa:١٧٦٤", "bad_tag"),
        ("mesa:-1", "bad_tag"),
        ("mesa:9223372036854775808", "bad_tag"),
        ("mesa: 5", "bad_tag"),
        ("mesa:", "bad_tag"),
        ("1764655200123456789", "bad_tag"),
        ("Mesa:5", "bad_tag"),
        (":5", "bad_tag"),
    ],
)
def test_c36_a_tag_that_is_no_string_of_digits_is_refused(
    tag: object, code: str, tmp_path: Path, capsys: Capture
) -> None:
    path = write(tmp_path, "e.json", document({**item(), "tag": tag}))
    with pytest.raises(InputError) as caught:
        run(capsys, "plan", path, "--cluster", "fjord")
    assert caught.value.code == code
    assert code in str(caught.value)
    assert "items[0]" in str(caught.value)


def test_c36_a_tag_keeps_every_digit() -> None:
    text = "mesa:1764655200123456789"
    assert str(parse_item({**item(), "tag": text}, "x").stamp) == text


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (5, "not an object"),
        ({"kind": 5}, "kind endpoint"),
        ({**item(), "namespace": ""}, "namespace"),
        ({**item(), "service": None}, "service"),
        ({**item(), "address": 5}, "address"),
        ({**item(), "address": "1" * 65}, "address"),
        ({**item(), "ready": "yes"}, "ready"),
        ({**item(), "hostname": 5}, "hostname"),
        ({**item(), "ports": []}, "ports"),
        ({**item(), "ports": "http"}, "ports"),
        ({**item(), "ports": ["http"]}, "port is not an object"),
        ({**item(), "ports": [{"port": 0}]}, "1 to 65535"),
        ({**item(), "ports": [{"port": "80"}]}, "1 to 65535"),
        ({**item(), "ports": [{"name": 5}]}, "name"),
    ],
)
def test_an_item_that_is_none_is_named(
    wrong: object, what: str, tmp_path: Path, capsys: Capture
) -> None:
    path = write(tmp_path, "e.json", {"items": [item(), wrong]})
    with pytest.raises(InputError, match=what) as caught:
        run(capsys, "plan", path, "--cluster", "fjord")
    assert "items[1]" in caught.value.message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "it is empty"),
        ("[]", "not a JSON object"),
        ("{}", "no list of items"),
        ('{"items": 5}', "no list of items"),
        ('{"items": [', ":1: broken"),
        ('{"entries": [5]}', "entries[0]"),
        ('{"entries": [{"element": []}]}', "entries[0]"),
        ('{"entries": [{"element": ["endpoint"], "op": "add", "tag": "a:1"}]}', "no service"),
        ('{"entries": [{"element": ["endpoint"], "op": "add", "tag": 5}]}', "tag_not_string"),
    ],
)
def test_a_file_that_holds_no_elements_is_named(
    text: str, part: str, tmp_path: Path, capsys: Capture
) -> None:
    path = write(tmp_path, "e.json", text)
    with pytest.raises(InputError) as caught:
        run(capsys, "plan", path, "--cluster", "fjord")
    assert part in caught.value.message


def test_wrong_arguments_and_existing_files_are_named(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, "e.json", document())
    with pytest.raises(InputError, match="--cluster"):
        run(capsys, "plan", path, "--cluster", "Fjord")
    for text in ("a: [", "kind: EndpointSlice\nmetadata: {}\n"):
        broken = write(tmp_path, "b.yaml", text)
        with pytest.raises(InputError, match=r"b\.yaml:\d"):
            run(capsys, "plan", path, "--cluster", "fjord", "--existing", broken)


def test_items_of_kinds_of_the_future_are_passed_over() -> None:
    assert read_items({"items": [{"kind": "weight"}, item()]}, "f")[0].key == CART


def test_entries_of_a_snapshot_are_visible_if_added_and_exported() -> None:
    def row(kind: str, cluster: str, *key: Any, op: str = "add", value: Any = None) -> Any:
        element = [kind, cluster, *key]
        return {"element": element, "op": op, "tag": f"{cluster}:5", "value": value}

    http = [["http", 8080, "TCP", None]]
    rows = [
        row("endpoint", "mesa", "shop", "cart", "10.40.1.4", http, value={"ready": False}),
        row("endpoint", "mesa", "shop", "cart", "10.40.1.5", [{"port": 80}]),
        row("endpoint", "mesa", "shop", "cart", "10.40.1.6", http, op="remove"),
        row("endpoint", "mesa", "shop", "till", "10.40.1.7", None),
        row("endpoint", "tundra", "shop", "cart", "10.40.1.8", None),
        row("export", "mesa", "shop", "cart", value={}),
        row("export", "mesa", "shop", "till", op="remove"),
        row("cluster", "mesa", value={}),
    ]
    found = read_items({"entries": rows}, "f")
    assert [entry.endpoint for entry in found] == [
        Endpoint("10.40.1.4", HTTP, ready=False, serving=False),
        Endpoint("10.40.1.5", (Port("", 80),)),
    ]


@given(endpoint)
def test_an_item_read_back_is_the_endpoint(found: Endpoint) -> None:
    shown = item_of(CART, found, Stamp(7, "mesa"))
    read = parse_item(json.loads(json.dumps(shown)), "x")
    assert read == Item(CART, found, Stamp(7, "mesa"))


@given(st.dictionaries(st.sampled_from(list(item())), json_values))
def test_any_json_is_an_item_or_one_typed_error(fields: dict[str, Any]) -> None:
    try:
        found = parse_item({**item(), **fields}, "x")
    except InputError:
        return
    assert isinstance(found.endpoint, Endpoint)


@settings(deadline=None)
@given(endpoint_sets, endpoint_sets)
def test_what_was_planned_needs_no_second_pass(
    mesa: list[Endpoint], tundra: list[Endpoint]
) -> None:
    items = [Item(CART, found, Stamp(1, "mesa")) for found in mesa]
    items += [Item(ServiceKey("shop", "till"), found, Stamp(1, "tundra")) for found in tundra]
    planned = plan_objects("fjord", items)
    existing = [Located(manifest, "f", 1) for manifest in planned.objects]
    again = plan_objects("fjord", items, existing)
    assert again.writes() == {"creates": [], "updates": [], "deletes": []}
    assert again.objects == planned.objects
    assert len(planned.creates) == len(planned.objects)
    gone = plan_objects("fjord", [], existing)
    assert (gone.objects, len(gone.deletes)) == ((), len(existing))
