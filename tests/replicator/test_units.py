"""Durations and sizes carry their units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import InputError
from replicator.units import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("60s", 60),
        ("5m", 300),
        ("1h30m", 5400),
        ("1d2h3m4s5ms", 93784.005),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("0.5h", 1800),
    ],
)
def test_a_duration_is_read_in_its_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, abs=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        *("", "60", "s", "1 s", " 1s", "1s ", "1S", "1M", "1w", "-1s", "+1s", "1e3s", "1s1s"),
        *("1m1h", "1ms1s", "1.s", ".5s", "1,5s", "infs", "nan", "\u0661s", "1s\n", "1_0s"),
        *("9" * 13 + "s", "1h-5m", "0x1s"),
    ],
)
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_duration(text)
    assert caught.value.code == "bad_duration"
    assert "1h30m" in caught.value.cure


@given(st.integers(0, 10**12))
def test_a_duration_reads_back_to_the_millisecond(milliseconds: int) -> None:
    text = format_duration(milliseconds / 1000)
    assert round(parse_duration(text) * 1000) == milliseconds


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0B", 0),
        ("512B", 512),
        ("64KiB", 65536),
        ("1 MiB", 1048576),
        ("2GiB", 2147483648),
        ("3KB", 3000),
        ("3kB", 3000),
        ("1MB", 1000000),
        ("1GB", 1000000000),
    ],
)
def test_a_size_is_read_in_its_unit(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize(
    "text",
    [
        *("", "1", "B", "1.5MiB", "-1B", "1mib", "1Mi", "1M", "1  MiB", "1MiB ", "1TiB", "1MiB1B"),
        *("9" * 16 + "B", "\u0661B"),
    ],
)
def test_anything_else_is_no_size(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_size(text)
    assert caught.value.code == "bad_size"


@given(st.integers(0, 2**49))
def test_a_size_reads_back(count: int) -> None:
    assert parse_size(format_size(count)) == count


@given(st.text(max_size=30))
def test_any_text_is_a_duration_or_one_error(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except InputError:
        return
    assert 0 <= seconds < float("inf")
