"""Texts to objects, and every way in which a text is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from clusters.errors import ManifestError
from clusters.manifests import parse_documents, parse_manifests, reference
from tests.clusters.makers import json_values, slice_of

A = slice_of("cart-1")
B = slice_of("cart-2")


def read(data: str | bytes) -> list[dict[str, Any]]:
    return [item.manifest for item in parse_manifests(data, "file")]


@pytest.mark.parametrize(
    "text",
    [
        yaml.safe_dump_all([A, B]),
        json.dumps(A) + "\n" + json.dumps(B),
        json.dumps(A, indent=2) + json.dumps(B, indent=2) + "\n\n",
        json.dumps([A, B]),
        json.dumps(A) + "\n---\n" + json.dumps(B),
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [A, B]}),
        yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [A, B]}),
        "---\n" + yaml.safe_dump_all([A, None, B]) + "---\n",
        "# a comment\n" + yaml.safe_dump_all([A, B], default_flow_style=True),
        "\ufeff" + yaml.safe_dump_all([A, B]),
    ],
)
def test_all_forms_of_the_same_objects_read_the_same(text: str) -> None:
    assert read(text) == read(text.encode()) == [A, B]


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n---\n", "null", "\ufeff"])
def test_an_empty_file_has_no_objects(text: str) -> None:
    assert read(text) == []


def test_items_of_a_typed_list_take_over_kind_and_version() -> None:
    listed = {"apiVersion": "v1", "kind": "EndpointsList", "items": [{"metadata": {"name": "a"}}]}
    assert read(json.dumps(listed)) == [
        {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "a"}}
    ]
    assert read('{"kind": "List", "items": null}') == []
    assert read('{"kind": "WishList", "spec": {}}') == [{"kind": "WishList", "spec": {}}]


def test_yaml_scalars_are_read_as_kubernetes_reads_them() -> None:
    (found,) = read("when: 2025-12-02T06:00:00Z\naddress: 1:2:3:4:5:6:7:8\nport: 8080\nhex: 0x1f\n")
    assert found == {
        "when": "2025-12-02T06:00:00Z",
        "address": "1:2:3:4:5:6:7:8",
        "port": 8080,
        "hex": 31,
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [", 2),
        ("x: 1\n---\ny: {", 4),
        ('{"a": 1', 1),
        ('{"a": 1}\n{"b": tru}\n', 2),
        ("just words", 1),
        ("- 1\n", 1),
        ("x: 1\n---\n- [[1]]\n", 3),
        ("a: *nowhere", 1),
        ("a: !!python/object:os.system x", 1),
        ("a: !!int many", 1),
        ("a: !!timestamp never", 1),
        ("? [a]\n: b", 1),
        ("\x00", 1),
        ("[" * 100_000, 1),
        ('{"a": ' + "9" * 5000 + "}", 1),
        ("kind: List\nitems: 5", 1),
        ('{"kind": "List", "items": [{"kind": "List", "items": [[[[]]]]}]}', 1),
        ("&a [*a]", 1),
        (b"a: b\nc: \xff\n", 2),
        ("a:\n" + "- " * 3000, 2),
    ],
)
def test_what_cannot_be_read_names_the_file_the_line_and_a_cure(
    text: str | bytes, line: int
) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_manifests(text, "shop.yaml")
    assert caught.value.message.startswith(f"shop.yaml:{line}: ")
    assert "\n" not in str(caught.value)
    assert caught.value.cure


def test_objects_know_where_they_begin() -> None:
    text = "# first\na: 1\n---\n\nb: 2\n"
    assert [item.place for item in parse_manifests(text, "f")] == ["f:2", "f:5"]
    lines = '\n{"a": 1}\n\n{"b":\n 2}\n{"c": 3}'
    assert [item.line for item in parse_manifests(lines, "f")] == [2, 4, 6]


def test_documents_may_be_anything() -> None:
    assert parse_documents(b"[1]\n2", "f") == [([1], 1), (2, 2)]


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_gives_objects_or_one_typed_error(text: str | bytes) -> None:
    try:
        found = parse_manifests(text, "f")
    except ManifestError:
        return
    assert all(isinstance(item.manifest, dict) for item in found)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_any_object_has_a_reference_or_one_typed_error(manifest: dict[str, Any]) -> None:
    try:
        assert reference(manifest).name
    except ManifestError:
        return


def test_a_reference_names_the_object() -> None:
    assert str(reference(A)) == "EndpointSlice/shop/cart-1"
    assert str(reference({"kind": "Namespace", "metadata": {"name": "shop"}})) == "Namespace/shop"
    for absent in ({}, {"namespace": None}, {"namespace": ""}):
        manifest = {"kind": "Service", "metadata": {"name": "cart", **absent}}
        assert str(reference(manifest)) == "Service/default/cart"


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        ({}, "kind"),
        ({"kind": 7}, "kind"),
        ({"kind": "Service"}, "metadata"),
        ({"kind": "Service", "metadata": []}, "metadata"),
        ({"kind": "Service", "metadata": {}}, "metadata.name"),
        ({"kind": "Service", "metadata": {"name": "Cart"}}, "metadata.name"),
        ({"kind": "Service", "metadata": {"name": "a" * 254}}, "metadata.name"),
        ({"kind": "Service", "metadata": {"name": "a", "namespace": 5}}, "metadata.namespace"),
        ({"kind": "Service", "metadata": {"name": "a", "namespace": "a.b"}}, "metadata.namespace"),
        (
            {"kind": "Service", "metadata": {"name": "a", "namespace": "b" * 64}},
            "metadata.namespac",
        ),
    ],
)
def test_an_object_without_a_name_is_refused_by_field(manifest: dict[str, Any], field: str) -> None:
    with pytest.raises(ManifestError, match=field):
        reference(manifest)
