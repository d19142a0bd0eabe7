"""Frames: what goes in comes out, and nothing else comes in."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from itertools import product, repeat
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdt import Head, Origin, Version
from replicator import messages as m
from replicator.codec import (
    FRAME_LIMIT,
    LIST_LIMIT,
    LISTS_LIMIT,
    MAJOR,
    decode,
    decode_head,
    decode_record,
    encode,
    encode_head,
    encode_packed,
    encode_record,
    unpack_plain,
)
from replicator.errors import ProtocolError
from tests.support.protocol import INT63, heads, messages, records, transfers

BUDGET_SECONDS = 0.05
FJORD = Origin("fjord")
HEAD = Head(FJORD, 1, None, 9, 0, 1, b"r" * 32, 5, 4, b"key", b"signed")
TRANSFER = m.Transfer(FJORD, 1, False, 2, 9, ((b"e", 3, 0, b"v"), (b"f", 9, 1, b"\xc0")), HEAD)  # noqa: FBT003
SAMPLES: list[m.Message] = [
    m.Hello(0, "set", "fjord", "i", "writer", 1, "uid", "0.1", FRAME_LIMIT),
    m.Record(FJORD, b"key", (b"leaf", b"ca")),
    m.Heads((m.Advert(FJORD, Version(1, 9), 0, b"r" * 8),)),
    m.Want(FJORD, Version(1, 9), snapshot=True),
    m.Stop(FJORD),
    TRANSFER,
    m.Beat(1, 2, 3, b"d"),
    m.Reject("code", "detail"),
    m.Skew(Origin("fjord"), "mesa", 1),
    m.Admission(2, 3, "mesa"),
    m.GetBuckets(FJORD, 2),
    m.Buckets(HEAD, 1, b"n" * 33),
    m.GetBucketEntries(FJORD, Version(1, 9), (1, 16, 0x1FFF)),
    m.BucketEntries(FJORD, 1, 2, 9, ((b"e", 3, 0, b"v"),), last=True),
]


def packed(value: object) -> bytes:
    """A frame of our version with any value in it."""
    return bytes((MAJOR,)) + bytes(msgpack.packb(value))


def fields_of(message: m.Message) -> list[Any]:
    """What the frame of a message holds."""
    found: list[Any] = msgpack.unpackb(encode(message)[1:])
    return found


def refusal(frame: bytes) -> str:
    """The code a frame is refused with."""
    with pytest.raises(ProtocolError) as caught:
        decode(frame)
    return caught.value.code


@given(messages)
def test_every_message_reads_back(message: m.Message) -> None:
    assert decode(encode(message)) == message


@given(transfers())
def test_a_packed_transfer_reads_back(transfer: m.Transfer) -> None:
    assert decode(encode_packed(transfer)) == transfer


@given(transfers(), st.data())
def test_a_damaged_packed_transfer_is_a_message_or_refused(
    transfer: m.Transfer, data: st.DataObject
) -> None:
    frame = bytearray(encode_packed(transfer))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(1, len(frame) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        decode(bytes(frame))


def test_a_packed_transfer_cut_short_or_changed_is_refused_or_harmless() -> None:
    frame = encode_packed(TRANSFER)
    for length in range(len(frame)):
        assert refusal(frame[:length]) in {"bad_frame", "bad_version"}
    assert refusal(frame + b"\xc0") == "bad_frame"
    fields: list[Any] = msgpack.unpackb(frame[1:])
    assert decode(packed([*fields, "new", [1.5, [None]], -7])) == TRANSFER
    assert refusal(packed(fields[:-1])) == "bad_frame"
    for at, wrong in product(range(1, len(fields)), [None, -1, 1.5, True, b"x", [], [1], 2**63]):
        with suppress(ProtocolError):
            assert isinstance(decode(packed([*fields[:at], wrong, *fields[at + 1 :]])), m.Transfer)


@pytest.mark.parametrize(("at", "wrong"), [(5, 10), (5, 0), (5, 6), (6, 2**63), (8, [None] * 7)])
def test_a_packed_transfer_whose_parts_do_not_fit_is_refused(at: int, wrong: object) -> None:
    """Its span before the beginning of time, or a stamp outside it."""
    fields: list[Any] = msgpack.unpackb(encode_packed(TRANSFER)[1:])
    assert refusal(packed([*fields[:at], wrong, *fields[at + 1 :]])) == "bad_frame"


@pytest.mark.parametrize(("at", "wrong"), [(1, 10), (4, -10), (5, 2**63), (4, None), (4, True)])
def test_a_packed_head_that_cannot_be_is_refused(at: int, wrong: object) -> None:
    fields: list[Any] = msgpack.unpackb(encode_packed(TRANSFER)[1:])
    fields[8][at] = wrong
    assert refusal(packed(fields)) == "bad_frame"


def test_only_true_says_that_packed_transfers_are_taken_and_buckets_told() -> None:
    hello = SAMPLES[0]
    assert isinstance(hello, m.Hello)
    for said in (False, None, 1, "yes", [], b""):
        assert decode(packed([*fields_of(hello), said])) == hello
        assert decode(packed([*fields_of(hello), True, said])) == replace(hello, packed=True)
    assert decode(packed([*fields_of(hello), True])) == replace(hello, packed=True)
    assert decode(packed([*fields_of(hello), 0, True])) == replace(hello, buckets=True)


@given(heads)
def test_a_head_reads_back(head: Head) -> None:
    assert decode_head(encode_head(head)) == head


def test_a_floor_above_the_stamp_is_refused() -> None:
    """No snapshot could ever lead to such a head."""
    head = Head(Origin("fjord"), 1, None, 5, 6, 0, bytes(32), 0, 0, b"", b"")
    with pytest.raises(ProtocolError, match="a floor above its stamp"):
        decode_head(encode_head(head))
    assert decode_head(encode_head(replace(head, floor=5))).floor == 5


@given(records)
def test_a_record_reads_back(record: m.Record) -> None:
    assert decode_record(encode_record(record)) == record


@given(frame=st.binary(max_size=300), ours=st.booleans())
def test_any_bytes_are_a_message_or_refused(*, frame: bytes, ours: bool) -> None:
    with suppress(ProtocolError):
        decode(b"\x01" + frame if ours else frame)


@given(messages, st.data())
def test_a_damaged_frame_is_a_message_or_refused(message: m.Message, data: st.DataObject) -> None:
    frame = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(1, len(frame) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        decode(bytes(frame))


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_a_frame_cut_short_anywhere_is_refused(message: m.Message) -> None:
    frame = encode(message)
    for length in range(len(frame)):
        assert refusal(frame[:length]) in {"bad_frame", "bad_version"}


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_trailing_bytes_are_refused(message: m.Message) -> None:
    assert refusal(encode(message) + b"\xc0") == "bad_frame"


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_fields_appended_by_a_newer_version_are_ignored(message: m.Message) -> None:
    assert decode(packed([*fields_of(message), "new", [1.5, [None]], -7])) == message


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
@pytest.mark.parametrize("wrong", [None, -1, 1.5, True, "x" * 5000, b"x" * 70_000, [], [1], 2**63])
def test_a_wrong_field_is_refused_or_harmless(message: m.Message, wrong: object) -> None:
    fields = fields_of(message)
    for at in range(1, len(fields)):
        with suppress(ProtocolError):
            again = decode(packed([*fields[:at], wrong, *fields[at + 1 :]]))
            assert type(again) is type(message)


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_with_a_field_less_is_refused(message: m.Message) -> None:
    assert refusal(packed(fields_of(message)[:-1])) == "bad_frame"


def test_an_unknown_message_is_kept_apart() -> None:
    assert decode(packed([99, "anything", [1]])) == m.Unknown(99)
    assert decode(encode(m.Unknown(99))) == m.Unknown(99)


@pytest.mark.parametrize("frame", [b"", b"\x00\x91\x05", b"\x02\x91\x05"])
def test_another_major_version_is_refused(frame: bytes) -> None:
    assert refusal(frame) == "bad_version"


@pytest.mark.parametrize("value", [None, 7, "text", [], {}, [None], [-1], [1.0], [True], ["1"]])
def test_a_frame_is_a_list_with_a_type(value: object) -> None:
    assert refusal(packed(value)) == "bad_frame"


def test_a_frame_beyond_the_limit_is_refused_unread() -> None:
    assert refusal(b"\x01" + b"\xc1" * FRAME_LIMIT) == "too_large"


# What extension types there are (case C65), alone and where nothing is looked at.
EXTENSIONS = {
    "extension 42": "d42a78",
    "an empty extension": "c7002a",
    "an extension with its length": "c80002aa0102",
    "timestamp 32": "d6ff00000001",
    "timestamp 64 with 1,000,000,000 ns": "d7ffee6b280000000000",
    "timestamp 96 far beyond year 9999": "c70cff000000001000000000000000",
    "a timestamp of no bytes": "c700ff",
}


@pytest.mark.parametrize("text", EXTENSIONS.values(), ids=EXTENSIONS.keys())
def test_c65_no_extension_type_comes_in_anywhere(text: str) -> None:
    raw = bytes.fromhex(text)
    assert refusal(b"\x01" + raw) == "ext_not_allowed"
    assert refusal(b"\x01\x92\x05" + raw) == "ext_not_allowed"
    assert refusal(b"\x01\x92\x63" + raw) == "ext_not_allowed"
    appended = encode(m.Reject("a", "b"))[2:]
    assert refusal(b"\x01\x94" + appended + raw) == "ext_not_allowed"


@pytest.mark.parametrize("wrong", [1.0, 2**63, 2**64 - 1, -1, True, "7", None])
def test_c36_a_time_is_an_integer_of_63_bits(wrong: object) -> None:
    assert decode(packed([7, INT63, 0, 0, b""])) == m.Beat(INT63, 0, 0, b"")
    assert refusal(packed([7, wrong, 0, 0, b""])) == "bad_frame"
    entry = [b"e", wrong, 0, b"v"]
    assert refusal(packed([6, "fjord", 0, 1, True, 0, 9, [entry], None])) == "bad_frame"


@pytest.mark.parametrize("value", [{}, {"a": 1}, [{}], {1: {2: 3}}])
def test_a_frame_holds_no_maps_anywhere(value: object) -> None:
    assert refusal(packed([99, value])) == "bad_frame"
    assert refusal(packed([8, "code", "detail", value])) == "bad_frame"


def test_a_key_twice_or_out_of_order_is_refused_where_maps_are_read() -> None:
    assert unpack_plain(b"\x82\x01\x02\x02\x03") == {1: 2, 2: 3}
    for bad in (b"\x82\x01\x02\x01\x03", b"\x82\x02\x03\x01\x02", b"\x81\x90\xc0", b"\x81\x80\xc0"):
        with pytest.raises(ProtocolError, match="map"):
            unpack_plain(bad)


@pytest.mark.parametrize("cluster", ["", "Fjord", "a.b", "-a", "a" * 64, "fjord\n", "é"])
def test_an_origin_is_a_dns_label(cluster: str) -> None:
    assert refusal(packed([5, cluster, 0])) == "bad_frame"


@pytest.mark.parametrize(
    "change",
    [
        {5: 10, 7: []},
        {7: [[b"e", 2, 0, b"v"]]},
        {7: [[b"e", 10, 0, b"v"]]},
        {7: [[b"e", 3, 2, b"v"]]},
        {7: [[b"e", 3, True, b"v"]]},
        {7: [[b"e", 3, 0]]},
        {7: [[b"e", 3, 0, b"v", 1]]},
        {1: "mesa"},
        {2: 1},
        {3: 7},
        {6: 8, 7: []},
    ],
)
def test_a_chunk_whose_parts_do_not_fit_is_refused(change: dict[int, object]) -> None:
    assert decode(encode(TRANSFER)) == TRANSFER
    fields = fields_of(TRANSFER)
    shifted = [fields[0], *(change.get(at, fields[at]) for at in range(1, len(fields)))]
    assert refusal(packed(shifted)) == "bad_frame"


@pytest.mark.parametrize(
    "value",
    [
        [12, "fjord", 0, 4],
        [13, None, 0, b""],
        [13, [*HEAD.fields(), HEAD.signature], 4, b""],
        [13, [*HEAD.fields(), HEAD.signature], 0, b"n" * 34],
        [14, "fjord", 0, 1, 9, []],
        [14, "fjord", 0, 1, 9, [0]],
        [14, "fjord", 0, 1, 9, [2]],
        [14, "fjord", 0, 1, 9, [0x10000]],
        [15, "fjord", 0, 1, 9, 2, [], True],
        [15, "fjord", 0, 1, 2, 9, [[b"e", 2, 0, b"v"]], True],
    ],
)
def test_buckets_out_of_bounds_are_refused(value: list[object]) -> None:
    assert refusal(packed(value)) == "bad_frame"


def test_a_head_that_is_nothing_or_too_long_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode_head(b"\xc0")
    fields = [*HEAD.fields(), HEAD.signature]
    for at, wrong in {7: b"r" * 33, 10: b"k" * 65, 11: b"s" * 1025, 3: [1, 2]}.items():
        bad = [*fields[:at], wrong, *fields[at + 1 :]]
        with pytest.raises(ProtocolError):
            decode_head(bytes(msgpack.packb(bad)))


def test_a_chain_is_short_and_so_are_its_certificates() -> None:
    good = m.Record(FJORD, b"key", (b"x" * 16_384,) * 8)
    assert decode(encode(good)) == good
    for chain in ([], [b"x"] * 9, [b"x" * 16_385]):
        assert refusal(packed([2, "fjord", 0, b"key", chain])) == "bad_frame"


def test_a_reason_is_cut_where_it_is_too_long_to_be_read() -> None:
    told = decode(encode(m.Reject("code", "x" * 10_000)))
    assert isinstance(told, m.Reject)
    assert len(told.detail) == 4096


def test_a_list_is_limited_in_length() -> None:
    row = ["fjord", 0, 1, 1, 0, b""]
    assert isinstance(decode(packed([3, [row] * LIST_LIMIT])), m.Heads)
    assert refusal(packed([3, [row] * (LIST_LIMIT + 1)])) == "bad_frame"


def bombs() -> dict[str, bytes]:
    """Frames of up to a megabyte that declare, nest or hold as much as they can."""
    room = FRAME_LIMIT - 1
    full, count = b"\xdc\x07\xff", 0x7FF
    nested = {
        f"{depth} lists within each other": full * depth + filler
        for depth in (511, 1000, 1023, 1024, 5000)
        for filler in (b"", b"\xc0" * (room - 3 * depth))
    }
    return {
        **nested,
        "a list of four billion": b"\xdd\xff\xff\xff\xff",
        "a text of four billion": b"\xdb\xff\xff\xff\xff",
        "bytes of four billion": b"\xc6\xff\xff\xff\xff",
        "a map of four billion": b"\xdf\xff\xff\xff\xff",
        "an extension of four billion": b"\xc9\xff\xff\xff\xff\x01",
        "a million lists of one": b"\x91" * room,
        "a million empty lists": b"\xdd" + (room - 5).to_bytes(4, "big") + b"\x90" * (room - 5),
        "empty lists in lists": (full + b"\x90" * count) * (room // (count + 3)),
        "empty maps in lists": (b"\xdc\x01\xfe" + (full + b"\x80" * count) * 510),
        "a million nils": b"\xdc\x01\xfe" + (full + b"\xc0" * count) * 510,
        "a million short texts": b"\xdc\x00\xaa" + (full + b"\xa2ab" * count) * 170,
        "a map of half a million": b"\xdf\x00\x07\xff\xf0" + b"\xc0" * (room - 5),
        "a million small maps": b"\x81\x01" * (room // 2),
    }


BOMBS = bombs()


@pytest.mark.parametrize("name", BOMBS)
def test_no_frame_costs_more_than_its_bytes(name: str) -> None:
    frame = b"\x01" + BOMBS[name]
    spent = []
    for _ in repeat(None, 3):
        began = time.process_time()
        with pytest.raises(ProtocolError):
            decode(frame)
        spent.append(time.process_time() - began)
    assert min(spent) < BUDGET_SECONDS


def test_lists_are_counted_over_the_whole_frame() -> None:
    rows: list[object] = [[[]] * 2000] * 3
    assert refusal(packed([99, rows])) == "too_large"
    assert decode(packed([99, [[]] * (LIST_LIMIT - 1)])) == m.Unknown(99)
    assert LISTS_LIMIT > LIST_LIMIT


@settings(max_examples=30)
@given(st.text(max_size=3), st.integers(0, 3))
def test_text_that_is_not_utf8_is_refused(text: str, at: int) -> None:
    raw = text.encode()[:at] + b"\xff"
    assert refusal(b"\x01\x93\x08" + bytes((0xA0 | len(raw),)) + raw + b"\xa0") == "bad_frame"
