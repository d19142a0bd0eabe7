"""The hot paths cost no more than the baseline says, in figures that no machine changes."""

from __future__ import annotations

import pytest

from bench import guard

VERSION, BASELINE = guard.read_baseline()
same_python = pytest.mark.skipif(
    guard.python() != VERSION, reason=f"calls and memory are those of Python {VERSION}"
)


def test_a_change_takes_no_more_bytes_on_the_wire_than_it_did() -> None:
    assert guard.worse(guard.frame_bytes(), BASELINE) == []


def test_a_change_takes_the_bytes_that_it_is_to_take() -> None:
    found = guard.frame_bytes()
    assert found["bytes a change, random, 100 in a frame"] <= 20
    assert found["bytes a change, rolling, 100 in a frame"] <= 8


@same_python
def test_an_element_takes_no_more_memory_than_it_did() -> None:
    found = guard.memory()
    assert guard.worse(found, BASELINE) == []
    assert found["memory, bytes an element"] <= 300


@same_python
def test_an_entry_takes_no_more_calls_than_it_did() -> None:
    assert guard.worse(guard.work_calls(), BASELINE) == []


def test_what_is_worse_by_more_than_its_margin_or_unknown_is_said() -> None:
    baseline = {"bytes a change": 100.0, "calls an entry, one": 100.0}
    assert guard.worse({"bytes a change": 101.0, "calls an entry, one": 50.0}, baseline) == []
    assert guard.worse({"bytes a change": 101.1}, baseline) == [
        "bytes a change: 101.1, more than 1% above 100.0"
    ]
    assert guard.worse({"calls an entry, two": 1.0}, baseline) == [
        "calls an entry, two: 1.0, and the baseline has none"
    ]
