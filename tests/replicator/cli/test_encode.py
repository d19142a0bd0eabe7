"""``replicator encode``: files and streams in, the fixed document out, case by case."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from replicator.errors import InputError
from tests.clusters.makers import entry, load_case, slice_of
from tests.replicator.cli.offline import run, run_json

AT = 1_764_655_200_123_456_789
Capture = pytest.CaptureFixture[str]
CASES: list[dict[str, Any]] = load_case("encode")["cases"]
STREAMS: list[dict[str, Any]] = load_case("streams")["cases"]


def named(case: dict[str, Any]) -> str:
    return f"{case['case']}-{case['title']}".replace(" ", "-")


def row(item: dict[str, Any]) -> list[Any]:
    """An ITEM as the case files write it."""
    defaults = {
        "ready": True,
        "serving": True,
        "terminating": False,
        **dict.fromkeys(("hostname", "zone", "node", "pod")),
    }
    different = {name: item[name] for name in defaults if item[name] != defaults[name]}
    port = item["ports"][0]["port"] if item["ports"] else None
    return [item["service"], item["address"], port, *([different] if different else [])]


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_objects_become_the_elements_of_the_case(
    case: dict[str, Any], tmp_path: Path, capsys: Capture
) -> None:
    objects = case["objects"]
    forms = [
        yaml.safe_dump_all(objects),
        json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
        "\n".join(map(json.dumps, objects)),
        yaml.safe_dump_all(reversed(objects)),
    ]
    for number, text in enumerate(forms):
        path = write(tmp_path, f"{number}.yaml", text)
        found = run_json(capsys, "encode", path, "--cluster", "fjord", "--at", str(AT))
        assert set(found) == {"cluster", "items", "skipped"}
        assert [row(item) for item in found["items"]] == case["items"]
        assert [item["tag"] for item in found["items"]] == [
            f"fjord:{AT + number}" for number in range(len(case["items"]))
        ]
        assert [skipped_row(item) for item in found["skipped"]] == case.get("skipped", [])


def skipped_row(item: dict[str, Any]) -> list[str]:
    """An entry of ``skipped`` as the case files write it."""
    assert set(item) <= {"reason", "object", "address"}
    return [item["reason"], item["object"], *([item["address"]] if "address" in item else [])]


def stream(case: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for kind, name, endpoints, *more in case["lines"]:
        extra = {"kind": case.get("kind", "EndpointSlice"), **(more[0] if more else {})}
        meta: dict[str, Any] = {"name": name, "namespace": "shop"}
        if "trigger" in extra:
            annotation = "endpoints.kubernetes.io/last-change-trigger-time"
            meta["annotations"] = {annotation: extra["trigger"]}
        if "uid" in extra:
            meta |= {"uid": extra["uid"], "resourceVersion": str(len(events))}
        ports = [{"name": "http", "port": 8080}]
        body: dict[str, Any] = {
            "kind": extra["kind"],
            "metadata": meta,
            "future": extra.get("future"),
        }
        if extra["kind"] == "Endpoints":
            body |= {"apiVersion": "v1", "subsets": [{"addresses": endpoints, "ports": ports}]}
        else:
            meta["labels"] = {"kubernetes.io/service-name": "cart"}
            body |= {
                "apiVersion": "discovery.k8s.io/v1",
                "addressType": extra.get("family", "IPv4"),
                "ports": ports,
                "endpoints": endpoints,
            }
        events.append({"type": kind, "object": body})
    return events


@pytest.mark.parametrize("case", STREAMS, ids=named)
def test_lines_become_the_changes_of_the_case(
    case: dict[str, Any], tmp_path: Path, capsys: Capture
) -> None:
    text = "\n".join(map(json.dumps, stream(case)))
    path = write(tmp_path, "stream.jsonl", text)
    found = run_json(capsys, "encode", "--events", path, "--cluster", "fjord", "--at", "0")
    changes = [
        [change["line"], change["op"], *row(change["item"])[1:2], *row(change["item"])[3:]]
        for change in found["changes"]
    ]
    assert changes == case["changes"]
    assert [change["item"]["tag"] for change in found["changes"]] == [
        f"fjord:{number}" for number in range(len(changes))
    ]
    last = {item[2]: item[1] for item in case["changes"]}
    assert [item["address"] for item in found["items"]] == [
        address for address, op in last.items() if op == "add"
    ]


def test_the_document_is_exactly_of_the_fixed_shape(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, "a.yaml", yaml.safe_dump(slice_of("a", entry("10.20.1.4"))))
    text = run(capsys, "encode", path, "--cluster", "fjord", "--at", str(AT), "-o", "json")
    assert json.loads(text) == {
        "cluster": "fjord",
        "items": [
            {
                "kind": "endpoint",
                "tag": f"fjord:{AT}",
                "namespace": "shop",
                "service": "cart",
                "address": "10.20.1.4",
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP", "app_protocol": None}],
                "ready": True,
                "serving": True,
                "terminating": False,
                "hostname": None,
                "zone": None,
                "node": None,
                "pod": None,
            }
        ],
        "skipped": [],
    }
    as_yaml = run(capsys, "encode", path, "--cluster", "fjord", "--at", str(AT), "-o", "yaml")
    assert yaml.safe_load(as_yaml) == json.loads(text)


def test_output_is_ordered_by_namespace_service_family_address_and_ports(
    tmp_path: Path, capsys: Capture
) -> None:
    four = [entry("10.20.1.10"), entry("9.9.9.9"), entry("10.20.1.9")]
    other = [{"name": "http", "port": 7070}]
    objects = [
        slice_of("z", entry("10.1.1.1"), service="a", namespace="z"),
        slice_of("six", entry("2001:db8::10"), entry("2001:db8::9"), family="IPv6"),
        slice_of("four", *four),
        slice_of("other", entry("10.20.1.9"), ports=other),
        slice_of("b", entry("10.99.1.1"), service="b"),
    ]
    path = write(tmp_path, "a.yaml", yaml.safe_dump_all(objects))
    found = run_json(capsys, "encode", path, "--cluster", "fjord", "--at", "5")
    assert [
        (item["service"], item["address"], item["ports"][0]["port"]) for item in found["items"]
    ] == [
        ("b", "10.99.1.1", 8080),
        ("cart", "9.9.9.9", 8080),
        ("cart", "10.20.1.9", 7070),
        ("cart", "10.20.1.9", 8080),
        ("cart", "10.20.1.10", 8080),
        ("cart", "2001:db8::9", 8080),
        ("cart", "2001:db8::10", 8080),
        ("a", "10.1.1.1", 8080),
    ]
    assert [item["tag"] for item in found["items"]] == [f"fjord:{n}" for n in range(5, 13)]


def test_several_files_and_standard_input_are_one_state(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = write(tmp_path, "a.yaml", yaml.safe_dump(slice_of("a", entry("10.20.1.4"))))
    text = json.dumps(slice_of("b", entry("10.20.1.4"), entry("10.20.1.5"))).encode()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    found = run_json(capsys, "encode", one, "-", "--cluster", "fjord")
    assert [item["address"] for item in found["items"]] == ["10.20.1.4", "10.20.1.5"]


def test_an_empty_file_has_no_items(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, "a.yaml", "")
    expected: dict[str, Any] = {"cluster": "fjord", "items": [], "skipped": []}
    assert run_json(capsys, "encode", path, "--cluster", "fjord") == expected
    streamed = run_json(capsys, "encode", path, "--cluster", "fjord", "--events")
    assert streamed == {**expected, "changes": []}


def test_without_at_stamps_are_of_now(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, "a.yaml", yaml.safe_dump(slice_of("a", entry("10.20.1.4"))))
    found = run_json(capsys, "encode", path, "--cluster", "fjord")
    assert int(found["items"][0]["tag"].removeprefix("fjord:")) > AT


def test_system_services_can_be_asked_for(tmp_path: Path, capsys: Capture) -> None:
    objects = [
        slice_of("dns", entry("10.20.1.4"), service="dns", namespace="kube-system"),
        slice_of("kubernetes", entry("192.0.2.1"), service="kubernetes", namespace="default"),
    ]
    path = write(tmp_path, "a.yaml", yaml.safe_dump_all(objects))
    found = run_json(capsys, "encode", path, "--cluster", "fjord", "--system")
    assert [item["service"] for item in found["items"]] == ["kubernetes", "dns"]


STATUS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"type": "ERROR", "object": {**STATUS, "code": 410, "reason": "Expired"}}, "gone"),
        ({"type": "ERROR", "object": {**STATUS, "reason": "Gone"}}, "gone"),
        ({"type": "ADDED", "object": {**STATUS, "code": 410}}, "gone"),
        ({"type": "ERROR", "object": {**STATUS, "code": 429}}, "throttled"),
        ({"type": "ERROR", "object": {**STATUS, "code": 500}}, "error_status"),
        ({"type": "ERROR", "object": STATUS}, "error_status"),
        ({"type": "ERROR", "object": {**STATUS, "code": 401}}, "unauthorized"),
        ({**STATUS, "code": 403, "reason": "Forbidden"}, "forbidden"),
        ({"type": "COMPACTED", "object": {"kind": "Thing"}}, "unknown_event"),
        ({"type": "ADDED"}, "no_object"),
        ({"type": "ADDED", "object": None}, "no_object"),
        ({"type": "ADDED", "object": {"kind": "EndpointSlice", "metadata": {}}}, "bad_object"),
        ({"type": "DELETED", "object": {"kind": "Service", "metadata": 5}}, "bad_object"),
    ],
)
def test_c02_c04_what_is_no_object_is_reported_with_its_line_and_changes_nothing(
    event: dict[str, Any], reason: str, tmp_path: Path, capsys: Capture
) -> None:
    good = {"type": "ADDED", "object": slice_of("a", entry("10.20.1.4"))}
    more = {"type": "ADDED", "object": slice_of("b", entry("10.20.1.5"))}
    text = "\n".join(map(json.dumps, [good, event, more])) + "\n"
    path = write(tmp_path, "s.jsonl", text)
    found = run_json(capsys, "encode", path, "--cluster", "fjord", "--events")
    assert [(item["reason"], item["line"]) for item in found["skipped"]] == [(reason, 2)]
    assert [change["line"] for change in found["changes"]] == [1, 3]
    assert len(found["items"]) == 2


def test_c11_bookmarks_change_nothing(tmp_path: Path, capsys: Capture) -> None:
    shell = {"kind": "EndpointSlice", "metadata": {"resourceVersion": "9"}, "endpoints": None}
    events = [
        {"type": "ADDED", "object": slice_of("a", entry("10.20.1.4"))},
        {"type": "BOOKMARK", "object": shell},
        {"type": "BOOKMARK", "object": {"kind": "EndpointSlice", "metadata": {}}},
    ]
    path = write(tmp_path, "s.jsonl", "\n\n".join(map(json.dumps, events)))
    found = run_json(capsys, "encode", path, "--cluster", "fjord", "--events")
    assert len(found["items"]) == len(found["changes"]) == 1
    assert found["skipped"] == []


def test_c05_long_lines_are_read_and_one_beyond_the_limit_is_named(
    tmp_path: Path, capsys: Capture
) -> None:
    events = []
    for size in (300_000, 3_000_000, 9_000_000):
        big = slice_of(f"s{size}", entry(f"10.20.{size % 7}.4"))
        big["metadata"]["annotations"] = {"padding": "x" * size}
        events.append({"type": "ADDED", "object": big})
    path = write(tmp_path, "s.jsonl", "\n".join(map(json.dumps, events)) + "\n")
    found = run_json(capsys, "encode", path, "--cluster", "fjord", "--events")
    assert len(found["changes"]) == 2
    assert found["skipped"] == [{"reason": "line_too_long", "object": "shop/s9000000", "line": 3}]


@pytest.mark.parametrize(
    "end", ['{"type":"MODIFIED","object":{"metadata":{"name":"a","res', '{"type":"ADDED","obj', "{"]
)
def test_c07_a_cut_last_line_is_dropped(end: str, tmp_path: Path, capsys: Capture) -> None:
    good = json.dumps({"type": "ADDED", "object": slice_of("a", entry("10.20.1.4"))})
    path = write(tmp_path, "s.jsonl", f"{good}\n{end}")
    found = run_json(capsys, "encode", path, "--cluster", "fjord", "--events")
    assert [item["reason"] for item in found["skipped"]] == ["cut_line"]
    assert len(found["items"]) == 1


def test_lines_are_counted_through_all_files(tmp_path: Path, capsys: Capture) -> None:
    one = json.dumps({"type": "ADDED", "object": slice_of("a", entry("10.20.1.4"))})
    two = json.dumps({"type": "ADDED", "object": slice_of("b", entry("10.20.1.5"))})
    first, second = write(tmp_path, "1", one + "\n\n"), write(tmp_path, "2", two)
    found = run_json(capsys, "encode", first, second, "--cluster", "fjord", "--events")
    assert [change["line"] for change in found["changes"]] == [1, 3]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("garbage", 1),
        ("garbage\n", 1),
        ("\n[1]\n", 2),
        ('{"type": nonsense}\n{}\n', 1),
        ('{"type": nonsense}', 1),
        ('{"type": NaN}', 1),
        ('{"type": ' + "[" * 50_000, 1),
        ("apiVersion: v1\nkind: List\n", 1),
    ],
)
def test_a_stream_that_is_none_is_an_error_with_its_line(
    text: str, line: int, tmp_path: Path, capsys: Capture
) -> None:
    path = write(tmp_path, "s.jsonl", text)
    with pytest.raises(InputError) as caught:
        run(capsys, "encode", path, "--cluster", "fjord", "--events")
    assert f"s.jsonl:{line}: " in caught.value.message
    assert caught.value.cure


def test_a_stream_in_another_encoding_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"type": "\xff"}\n')
    with pytest.raises(InputError, match="utf8"):
        run(capsys, "encode", str(path), "--cluster", "fjord", "--events")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: [", "a.yaml:2: "),
        ("kind: Service\n---\nkind: Service\nmetadata: {}\n", "a.yaml:1: Service has no metadata"),
        ("x: 1", "a.yaml:1: an object has no kind"),
        ('{"type": "ADDED", "object": {}}', "a.yaml:1: this is an event"),
        ("kind: Pod\nmetadata: {name: '?'}", "metadata.name"),
        ("- 5", "a int where an object should be"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_with_file_line_and_cure(
    text: str, part: str, tmp_path: Path, capsys: Capture
) -> None:
    path = write(tmp_path, "a.yaml", text)
    with pytest.raises(InputError) as caught:
        run(capsys, "encode", path, "--cluster", "fjord")
    assert part in caught.value.message
    assert caught.value.cure
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["missing.yaml", ".", "nul\0"])
def test_a_file_that_is_not_there_is_named(name: str, tmp_path: Path, capsys: Capture) -> None:
    with pytest.raises(InputError, match="cannot read"):
        run(capsys, "encode", str(tmp_path / name), "--cluster", "fjord")


@pytest.mark.parametrize("cluster", ["Fjord", "", "a:b", "a.b", "x" * 64])
def test_a_cluster_id_must_be_a_dns_label(cluster: str, tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, "a.yaml", "")
    with pytest.raises(InputError, match="DNS label"):
        run(capsys, "encode", path, "--cluster", cluster)


@pytest.mark.parametrize(
    "at", ["+5", "017", "1_764", "١٧٦٤", "1.5", " 17", "9223372036854775808", "now", "-1"]
)
def test_c36_a_time_that_is_no_nanotime_is_refused(
    at: str, tmp_path: Path, capsys: Capture
) -> None:
    path = write(tmp_path, "a.yaml", "")
    with pytest.raises(InputError, match="--at") as caught:
        run(capsys, "encode", path, "--cluster", "fjord", f"--at={at}")
    assert caught.value.code == "bad_tag"


def test_c36_the_last_nanosecond_has_one_stamp(tmp_path: Path, capsys: Capture) -> None:
    end = str(2**63 - 1)
    one = write(tmp_path, "a.yaml", yaml.safe_dump(slice_of("a", entry("10.20.1.4"))))
    found = run_json(capsys, "encode", one, "--cluster", "fjord", "--at", end)
    assert found["items"][0]["tag"] == f"fjord:{end}"
    two = write(
        tmp_path, "b.yaml", yaml.safe_dump(slice_of("a", entry("10.20.1.4"), entry("10.20.1.5")))
    )
    with pytest.raises(InputError, match="earlier --at"):
        run(capsys, "encode", two, "--cluster", "fjord", "--at", end)
