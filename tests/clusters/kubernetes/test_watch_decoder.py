"""Bytes of a watch to events (kubernetes.md W5-W7)."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.kubernetes.watch_decoder import (
    Bookmark,
    BrokenLine,
    ErrorStatus,
    Fault,
    LineTooLong,
    ObjectEvent,
    Op,
    UnknownEvent,
    WatchDecoder,
    WatchEvent,
)

CASES = Path(__file__).parents[2] / "data" / "cases" / "watch"


def line(kind: str, **metadata: Any) -> bytes:
    return json.dumps({"type": kind, "object": {"metadata": metadata}}).encode() + b"\n"


def decode(*chunks: bytes, limit: int = 1000) -> list[WatchEvent]:
    decoder = WatchDecoder(limit)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.finish()


def one(text: bytes) -> WatchEvent:
    (event,) = decode(text)
    return event


def test_objects_come_with_their_operation_and_version() -> None:
    added, modified, deleted = decode(
        line("ADDED", name="a", resourceVersion="1")
        + line("MODIFIED", name="a", resourceVersion="2")
        + line("DELETED", name="a", resourceVersion="3")
    )

    assert added == ObjectEvent(Op.ADDED, {"metadata": {"name": "a", "resourceVersion": "1"}}, "1")
    assert isinstance(modified, ObjectEvent)
    assert (modified.op, modified.version) == (Op.MODIFIED, "2")
    assert isinstance(deleted, ObjectEvent)
    assert (deleted.op, deleted.version) == (Op.DELETED, "3")


@pytest.mark.parametrize("version", [None, "", "0", 7, ["7"]])
def test_a_version_that_cannot_be_asked_for_is_none(version: object) -> None:
    event = one(line("ADDED", name="a", resourceVersion=version))

    assert isinstance(event, ObjectEvent)
    assert event.version is None


@pytest.mark.parametrize("body", [{}, {"metadata": None}, {"metadata": []}])
def test_an_object_without_metadata_is_still_an_event(body: dict[str, Any]) -> None:
    assert one(json.dumps({"type": "ADDED", "object": body}).encode()) == ObjectEvent(
        Op.ADDED, body, None
    )


def test_case_c11_bookmarks_only_carry_versions() -> None:
    events = decode((CASES / "bookmarks.jsonl").read_bytes())

    assert events[1:] == [Bookmark("4150", initial_end=True), Bookmark("4190"), Bookmark(None)]


def test_case_c02_an_expired_status_is_never_an_object() -> None:
    added, gone = decode((CASES / "gone.jsonl").read_bytes())

    assert isinstance(added, ObjectEvent)
    assert isinstance(gone, ErrorStatus)
    assert gone.status.gone


def test_a_status_under_any_type_is_a_refusal() -> None:
    body = {"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Gone"}
    for kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"):
        event = one(json.dumps({"type": kind, "object": body}).encode())
        assert isinstance(event, ErrorStatus)
        assert event.status.gone


def test_an_error_whose_object_is_no_status_is_a_refusal_without_a_code() -> None:
    event = one(b'{"type": "ERROR", "object": {"kind": "Pod", "code": "x"}}\n')

    assert isinstance(event, ErrorStatus)
    assert event.status.code is None


def test_case_c04_every_line_is_told_apart() -> None:
    throttled, internal, wordy, unknown, empty, bare = (
        one(text) for text in (CASES / "refusals.jsonl").read_bytes().splitlines()
    )

    assert isinstance(throttled, ErrorStatus)
    assert throttled.status.throttled
    assert throttled.status.retry_after == 7.0
    assert isinstance(internal, ErrorStatus)
    assert internal.status.code == 500
    assert isinstance(wordy, ErrorStatus)
    assert wordy.status.code is None
    assert unknown == UnknownEvent("COMPACTED")
    assert empty == BrokenLine(Fault.NO_OBJECT)
    assert isinstance(bare, ErrorStatus)
    assert bare.status.forbidden


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"{\n", Fault.NOT_JSON),
        (b"[]\n", Fault.NOT_JSON),
        (b"7\n", Fault.NOT_JSON),
        (b'{"type": 3, "object": {}}\n', Fault.NO_OBJECT),
        (b'{"type": "ERROR"}\n', Fault.NO_OBJECT),
        (b'{"type": "ADDED", "object": []}\n', Fault.NO_OBJECT),
        (b'{"object": {}}\n', Fault.NO_OBJECT),
        (b"{}\n", Fault.NO_OBJECT),
        (b'{"type": "ADDED", "object": {"x": "\xff"}}\n', Fault.NOT_UTF8),
        (b'{"type": "ADDED", "object": {"x": "\xc3"}}\n', Fault.NOT_UTF8),
    ],
)
def test_a_line_that_says_nothing_usable_is_broken(text: bytes, fault: Fault) -> None:
    assert one(text) == BrokenLine(fault)


def test_an_unknown_type_needs_no_object_and_is_shortened() -> None:
    assert one(b'{"type": "' + b"X" * 900 + b'"}\n') == UnknownEvent("X" * 64)


def test_blank_lines_and_carriage_returns_mean_nothing() -> None:
    assert decode(b"\n  \r\n", line("ADDED", name="a")[:-1] + b"\r\n\n") == decode(
        line("ADDED", name="a")
    )


def test_case_c07_a_cut_line_is_dropped_at_the_end() -> None:
    cut = b'{"type":"MODIFIED","object":{"metadata":{"name":"cart-aa1","resourceVersion":"77"'

    assert decode(cut) == []
    assert decode(line("ADDED", name="a"), cut) == decode(line("ADDED", name="a"))


def test_case_c07_a_whole_object_without_its_newline_counts() -> None:
    assert decode(line("BOOKMARK", resourceVersion="78")[:-1]) == [Bookmark("78")]


def test_a_rest_cut_within_a_character_is_dropped() -> None:
    assert decode('{"type": "ADDED", "object": {"x": "é'.encode()[:-1]) == []


def test_a_decoder_can_be_finished_twice() -> None:
    decoder = WatchDecoder()
    decoder.feed(line("ADDED", name="a")[:-1])

    assert len(decoder.finish()) == 1
    assert decoder.finish() == []


def test_a_line_of_exactly_the_limit_counts() -> None:
    text = line("ADDED", name="a")

    assert len(decode(text, limit=len(text) - 1)) == 1
    assert decode(text, limit=len(text) - 2) == [LineTooLong(None, "a")]


def test_case_c05_a_line_over_the_limit_is_named_and_skipped_and_others_flow() -> None:
    small = line("ADDED", namespace="shop", name="cart")
    huge = line("ADDED", name="cart-huge", namespace="shop", annotations={"x": "y" * 5000})

    first, told, last = decode(small, huge, small)

    assert told == LineTooLong("shop", "cart-huge")
    assert first == last
    assert isinstance(first, ObjectEvent)


def test_a_line_over_the_limit_holds_no_more_than_the_limit_and_a_chunk() -> None:
    decoder = WatchDecoder(1000)
    held = []
    for _ in range(100):
        decoder.feed(b"x" * 100)
        held.append(decoder.held)

    assert max(held) <= 1000
    assert decoder.finish() == []
    assert decoder.feed(line("ADDED", name="a")) != []


def test_names_are_found_behind_long_annotations() -> None:
    padded = {"annotations": {"name": "no", "x": ["name", {"name": "no"}, '"\\"' * 50]}}
    text = json.dumps(
        {
            "type": "ADDED",
            "name": "no",
            "object": {
                "name": "no",
                "metadata": {**padded, "namespace": "shop", "name": "cart", "uid": "z" * 2000},
            },
        }
    )

    assert decode(text.encode() + b"\n") == [LineTooLong("shop", "cart")]


@pytest.mark.parametrize(
    "text",
    [
        b"x" * 2000,
        b'"' * 2001,
        b"\\" * 2000,
        b"}" * 2000,
        b'{"type":"ADDED","object":{"metadata":{"annotations":{"a":"' + b'\\"' * 2000,
        b'{"object":{"metadata":{"a":"' + b"\\" * 973,
    ],
)
def test_names_that_were_not_seen_are_none(text: bytes) -> None:
    assert decode(text + b"\n") == [LineTooLong(None, None)]


def test_the_search_for_names_is_bounded() -> None:
    text = b'{"object":{"metadata":{"a":[' + b"1," * 30_000 + b'1],"name":"late"}}}\n'

    assert decode(text, limit=len(text) - 2) == [LineTooLong(None, None)]


STREAMS = st.lists(
    st.one_of(
        st.builds(
            lambda name, v: line("ADDED", name=name, resourceVersion=v), st.text(), st.text()
        ),
        st.builds(lambda v: line("BOOKMARK", resourceVersion=v), st.text(min_size=1)),
        st.builds(
            lambda n: line("MODIFIED", name="big", namespace="shop", x="é" * n),
            st.integers(0, 400),
        ),
        st.binary(max_size=40),
        st.just(b"\n"),
    ),
    max_size=12,
).map(b"".join)


@given(stream=STREAMS, cuts=st.lists(st.integers(0, 4000), max_size=30))
def test_any_cutting_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(borders)]

    assert decode(*chunks, limit=300) == decode(stream, limit=300)


@given(stream=STREAMS)
def test_byte_by_byte_gives_the_same_events(stream: bytes) -> None:
    assert decode(*(bytes([byte]) for byte in stream), limit=300) == decode(stream, limit=300)


@given(st.binary(max_size=300))
def test_no_bytes_raise(data: bytes) -> None:
    assert isinstance(decode(data, limit=50), list)
