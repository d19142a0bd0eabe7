"""Stamps: text form, order, and everything that is not one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from crdt import Stamp, StampError
from crdt.stamp import MAX_NANOTIME, parse_nanotime
from tests.crdt.strategies import clusters, nanotimes, stamps

CASE = yaml.safe_load(
    (Path(__file__).parents[1] / "data/cases/C36-nanotime-precision.yaml").read_text("utf-8")
)


@given(stamps)
def test_a_stamp_reads_back_from_its_text(stamp: Stamp) -> None:
    assert Stamp.parse(str(stamp)) == stamp


@given(clusters, nanotimes)
def test_the_text_is_the_cluster_and_the_decimal_nanotime(cluster: str, nanotime: int) -> None:
    assert str(Stamp(nanotime, cluster)) == f"{cluster}:{nanotime}"


@pytest.mark.parametrize("row", CASE["json"], ids=lambda row: row["document"])
def test_c36_only_a_narrow_decimal_string_is_a_nanotime(row: dict[str, Any]) -> None:
    given_value = json.loads(row["document"])["t"]
    if "error" not in row:
        assert parse_nanotime(given_value) == row["nanotime"]
        return
    with pytest.raises(StampError) as caught:
        parse_nanotime(given_value)
    assert caught.value.code == row["error"]


@pytest.mark.parametrize("row", CASE["json"], ids=lambda row: row["document"])
def test_c36_holds_inside_a_tag_as_well(row: dict[str, Any]) -> None:
    given_value = json.loads(row["document"])["t"]
    if row.get("error") == "tag_not_string":
        with pytest.raises(StampError) as caught:
            Stamp.parse(given_value)
        assert caught.value.code == "tag_not_string"
    elif "error" in row:
        with pytest.raises(StampError) as caught:
            Stamp.parse(f"fjord:{given_value}")
        assert caught.value.code == "bad_tag"
    else:
        assert Stamp.parse(f"fjord:{given_value}") == Stamp(row["nanotime"], "fjord")


def test_c36_a_nanotime_through_a_double_is_another_one() -> None:
    assert int(float(CASE["nanotime"])) == CASE["through_a_double"] != CASE["nanotime"]
    assert parse_nanotime(str(CASE["nanotime"])) == CASE["nanotime"]


@given(st.text(max_size=30) | st.text("0123456789_+-. e\u0661", max_size=25))
def test_a_nanotime_text_is_either_read_back_exactly_or_refused(text: str) -> None:
    try:
        value = parse_nanotime(text)
    except StampError as error:
        assert error.code == "bad_tag"  # noqa: PT017 - both outcomes are right
    else:
        assert str(value) == text


@given(st.text(max_size=80) | st.text("fjord:-0123456789", max_size=90))
def test_a_tag_is_either_read_back_exactly_or_refused(text: str) -> None:
    try:
        stamp = Stamp.parse(text)
    except StampError as error:
        assert error.code == "bad_tag"  # noqa: PT017 - both outcomes are right
    else:
        assert str(stamp) == text


@pytest.mark.parametrize("text", ["", "fjord", "fjord:", ":1", "fjord:1:2", "fjord: 1", "Fjord:1"])
def test_a_malformed_tag_is_refused(text: str) -> None:
    with pytest.raises(StampError) as caught:
        Stamp.parse(text)
    assert caught.value.code == "bad_tag"


@pytest.mark.parametrize(
    "cluster", ["", "-a", "a-", "A", "a.b", "a_b", "\u00e4", "a" * 64, "a\n", None, 7]
)
def test_a_cluster_that_is_no_dns_label_is_refused(cluster: Any) -> None:
    with pytest.raises(StampError):
        Stamp(1, cluster)


def test_a_cluster_of_63_characters_is_taken() -> None:
    assert Stamp.parse(f"{'a' * 63}:1").cluster == "a" * 63


@pytest.mark.parametrize("nanotime", [-1, MAX_NANOTIME + 1, True, 1.0, "1", None])
def test_a_nanotime_that_is_no_integer_in_range_is_refused(nanotime: Any) -> None:
    with pytest.raises(StampError):
        Stamp(nanotime, "fjord")


def test_a_nanotime_with_too_many_digits_to_print_is_refused() -> None:
    with pytest.raises(StampError):
        Stamp(10**5000, "fjord")


@given(stamps, stamps)
def test_order_is_time_first_and_then_the_clusters_bytes(a: Stamp, b: Stamp) -> None:
    expected = (a.nanotime, a.cluster.encode()) < (b.nanotime, b.cluster.encode())
    assert (a < b) is expected
    assert (a >= b) is not expected
    assert (a == b) is (not a < b and not b < a)


def test_order_never_looks_at_the_text() -> None:
    assert Stamp(9, "mesa") < Stamp(10, "fjord")
    assert Stamp(10, "fjord") < Stamp(10, "mesa")


def test_a_stamp_has_no_order_with_other_things() -> None:
    with pytest.raises(TypeError):
        _ = Stamp(1, "fjord") < "fjord:2"
