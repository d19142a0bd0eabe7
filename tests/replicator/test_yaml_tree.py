"""YAML with lines: strict where leniency hides mistakes, one typed error for all that is wrong."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ConfigError
from replicator.yaml_tree import SIZE_LIMIT, Tree, parse_tree


def plain(tree: Tree) -> Any:
    """The tree's values without their lines."""
    if isinstance(tree.value, dict):
        return {key: plain(value) for key, value in tree.value.items()}
    if isinstance(tree.value, list):
        return [plain(value) for value in tree.value]
    return tree.value


def test_lines_are_those_of_the_values() -> None:
    tree = parse_tree(b"a: 1\nb:\n  c: x\n  d:\n  - y\n  - z\n", "f")
    assert isinstance(tree.value, dict)
    inner = tree.value["b"].value
    assert isinstance(inner, dict)
    assert (tree.value["a"].line, inner["c"].line) == (1, 3)
    assert isinstance(inner["d"].value, list)
    assert [item.line for item in inner["d"].value] == [5, 6]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("no", "no"),
        ("1:30", "1:30"),
        ("010", 10),
        ("0x1f", "0x1f"),
        ("1_000", "1_000"),
        ("2026-01-01", "2026-01-01"),
        ("<<", "<<"),
        ("=", "="),
        ("-5", -5),
        ("+5", 5),
        ("1.5", 1.5),
        ("1e3", "1e3"),
        (".inf", ".inf"),
        ("~", None),
        ("null", None),
        ("True", True),
        ("false", False),
        ("'1'", "1"),
        ('"null"', "null"),
        ("!!str 1", "1"),
        ("!!int '1'", 1),
        ("9" * 19, "9" * 19),
    ],
)
def test_a_scalar_is_read_as_yaml_1_2_reads_it(text: str, value: object) -> None:
    found = plain(parse_tree(text.encode(), "f"))
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("data", [b"", b"\n", b"# nothing\n", b"\xef\xbb\xbf", b"---\n", b"null"])
def test_nothing_is_null(data: bytes) -> None:
    assert parse_tree(data, "f").value is None


def test_a_byte_order_mark_and_crlf_are_fine() -> None:
    tree = parse_tree(b"\xef\xbb\xbfa: 1\r\nb: x\r\n", "f")
    assert plain(tree) == {"a": 1, "b": "x"}
    assert isinstance(tree.value, dict)
    assert tree.value["b"].line == 2


def test_an_alias_is_what_it_names() -> None:
    assert plain(parse_tree(b"a: &x [1]\nb: *x\n", "f")) == {"a": [1], "b": [1]}


def test_many_aliases_of_aliases_cost_no_more_than_their_text() -> None:
    lines = ["a0: &a0 [x]"]
    for n in range(1, 60):
        aliases = ", ".join([f"*a{n - 1}"] * 9)
        lines.append(f"a{n}: &a{n} [{aliases}]")
    tree = parse_tree("\n".join(lines).encode(), "f")
    assert isinstance(tree.value, dict)
    assert len(tree.value) == 60


@pytest.mark.parametrize(
    ("data", "place", "what"),
    [
        (b"a: 1\na: 2\n", "f:2", "twice"),
        (b"x:\n  a: 1\n  b: 2\n  a: 3\n", "f:4", "twice"),
        (b"a: 1\n'a': 2\n", "f:2", "twice"),
        (b"1: x\n", "f:1", "no text"),
        (b"null: x\n", "f:1", "no text"),
        (b"? [a]\n: x\n", "f:1", "no text"),
        (b"a: [1, 2\n", "f:2", "broken YAML"),
        (b"a: b: c\n", "f:1", "broken YAML"),
        (b"a:\n\t- b\n", "f:2", "broken YAML"),
        (b"a: 'x\n", "f:2", "broken YAML"),
        (b"a: *nowhere\n", "f:1", "broken YAML"),
        (b"--- 1\n--- 2\n", "f:2", "broken YAML"),
        (b"\n\na: \xff\n", "f:3", "UTF-8"),
        ("a: 1\n".encode("utf-16"), "f:1", "UTF-8"),
        (b"a: 1\nb: \x00\n", "f:2", "does not allow"),
        (b"a: !!python/object:os.system x\n", "f:1", "tag"),
        (b"a: !!binary aGk=\n", "f:1", "tag"),
        (b"a: !!set {x}\n", "f:1", "tag"),
        (b"a: !!omap [x: 1]\n", "f:1", "tag"),
        (b"a: !!int x\n", "f:1", "tag"),
        (b"a: !!float [x]\n", "f:1", "tag"),
        (b"a: !mine x\n", "f:1", "tag"),
        (b"a: &a [*a]\n", "f:1", "itself"),
        (b"&a {b: *a}\n", "f:1", "itself"),
        (b"[" * 5000, "f:", "nested"),
        (b"a: " + b"x" * SIZE_LIMIT, "f:", "no configuration"),
    ],
)
def test_what_is_wrong_is_one_error_with_its_place(data: bytes, place: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_tree(data, "f")
    assert caught.value.message.startswith(place)
    assert what in caught.value.message
    assert caught.value.cure
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "ignore")))
def test_any_bytes_are_a_tree_or_one_configuration_error(data: bytes) -> None:
    try:
        tree = parse_tree(data, "f")
    except ConfigError:
        return
    assert tree.line >= 1


_SCALARS = st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.text(max_size=12)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(_VALUES)
def test_what_the_library_writes_reads_back(value: Any) -> None:
    text = yaml.safe_dump(value, default_style='"')
    assert plain(parse_tree(text.encode("utf-8"), "f")) == value
