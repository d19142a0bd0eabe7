"""The published vectors, read both ways by the project, and once more by a decoder of its own.

:mod:`tests.replicator.vector_reader` and ``vector_receiver`` were written from ``docs/protocol.md``
and share no code with the project; that they read the vectors shows that the page suffices.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256

from crdt import (
    Base,
    Entry,
    Head,
    MerkleDigest,
    Origin,
    OriginSet,
    Stamp,
    StampClock,
    StampError,
    Version,
    pack,
)
from crdt.digest import entry_digest, key_hash
from crdt.entries import entry_bytes
from replicator import messages as m
from replicator.codec import decode, decode_head, encode, encode_head, encode_packed
from replicator.errors import ProtocolError
from replicator.freshness import exchange
from replicator.handshake import Self
from replicator.kinds import check_entry
from replicator.own_origin import OwnOrigin
from replicator.remote_origin import RemoteOrigin
from replicator.replica import Replica
from replicator.signing import TrustStore
from tests.data.vectors import generate
from tests.data.vectors.notation import Json, bytes_of, value_of
from tests.replicator import vector_reader as reader
from tests.replicator.vector_receiver import Receiver
from tests.support.signers import FakeSigner, FakeVerifier

ROOT = Path(__file__).parents[2]
FILES: dict[str, Json] = {
    name: json.loads((generate.FOLDER / name).read_text("utf-8")) for name in generate.MAKERS
}


def cases(name: str, part: str = "cases") -> list[Any]:
    """Parameters: each case of a file under its name."""
    rows = FILES[f"{name}.json"][part]
    return [
        pytest.param(row, id=str(row.get("name", at)) if isinstance(row, dict) else str(at))
        for at, row in enumerate(rows)
    ]


def head_of(items: list[Any]) -> Head:
    """A head from its twelve items."""
    base = None if items[3] is None else Base(*items[3])
    return Head(Origin(*items[:2]), items[2], base, *items[4:])


def advert_of(items: list[Any]) -> m.Advert:
    """An advert from its items, of which those after the sixth may be missing."""
    seventh = items[6] if items[6:] else None
    reach = None if seventh is None else m.Reach(Version(*seventh[:2]), seventh[2])
    return m.Advert(Origin(*items[:2]), Version(*items[2:4]), *items[4:6], reach)


def entries_of(rows: list[Any]) -> tuple[Entry, ...]:
    """Entries from their items."""
    return tuple((row[0], row[1], row[2], row[3]) for row in rows)


def message_of(name: str, fields: list[Any]) -> m.Message:  # noqa: C901, PLR0911 - one a message
    """A message from its name and fields."""
    match name:
        case "Record":
            return m.Record(Origin(*fields[:2]), fields[2], tuple(fields[3]))
        case "Heads":
            return m.Heads(tuple(map(advert_of, fields[0])))
        case "Want":
            return m.Want(Origin(*fields[:2]), Version(*fields[2:4]), fields[4])
        case "Stop":
            return m.Stop(Origin(*fields))
        case "Skew":
            return m.Skew(Origin(*fields[:2]), *fields[2:4])
        case "Transfer":
            head = None if fields[7] is None else head_of(fields[7])
            epoch, snapshot, start, to = fields[2:6]
            entries = entries_of(fields[6])
            return m.Transfer(Origin(*fields[:2]), epoch, snapshot, start, to, entries, head)
        case "GetBuckets":
            return m.GetBuckets(Origin(*fields[:2]), fields[2])
        case "Buckets":
            return m.Buckets(head_of(fields[0]), *fields[1:3])
        case "GetBucketEntries":
            indexes = tuple(fields[4])
            return m.GetBucketEntries(Origin(*fields[:2]), Version(*fields[2:4]), indexes)
        case "BucketEntries":
            epoch, start, to = fields[2:5]
            entries = entries_of(fields[5])
            return m.BucketEntries(Origin(*fields[:2]), epoch, start, to, entries, fields[6])
    makers: dict[str, Callable[..., m.Message]]
    makers = {"Hello": m.Hello, "Beat": m.Beat, "Reject": m.Reject, "Admission": m.Admission}
    return makers[name](*fields)


# ---- the files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", generate.MAKERS)
def test_the_files_are_what_the_generator_makes(name: str) -> None:
    made = generate.text_of(generate.MAKERS[name]())
    assert (generate.FOLDER / name).read_text("utf-8") == made
    assert json.loads(made) == FILES[name]


@pytest.mark.parametrize("name", ["vector_reader", "vector_receiver"])
def test_the_second_decoder_shares_nothing_with_the_project(name: str) -> None:
    tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text("utf-8"))
    found = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for part in (
            [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
        )
    }
    known = {
        "__future__",
        "collections.abc",
        "dataclasses",
        "hashlib",
        "struct",
        "sys",
        "typing",
        "zlib",
    }
    assert found - known <= {"tests.replicator.vector_reader"}


# ---- values, stamps, entries, digests -----------------------------------------------------------


@pytest.mark.parametrize("case", cases("canonical"))
def test_a_value_has_its_canonical_bytes(case: Json) -> None:
    value = value_of(case["value"])
    assert pack(value).hex() == case["hex"]
    assert reader.pack(value).hex() == case["hex"]
    assert reader.Reader(bytes.fromhex(case["hex"]), maps=True).whole() == value


def test_stamps_are_read_written_refused_and_ordered() -> None:
    found = FILES["stamps.json"]
    for text, cluster, nanotime in found["good"]:
        assert Stamp.parse(text) == Stamp(value_of(nanotime), cluster)
        assert str(Stamp(value_of(nanotime), cluster)) == text
    for text, code in found["refused"]:
        with pytest.raises(StampError) as caught:
            Stamp.parse(text)
        assert caught.value.code == code
    assert all(Stamp.parse(a) < Stamp.parse(b) for a, b in pairwise(found["ascending"]))


@pytest.mark.parametrize("case", cases("entries"))
def test_an_entry_has_its_bytes_and_record(case: Json) -> None:
    element, value = pack(value_of(case["element"])), pack(value_of(case["value"]))
    stamp, op = value_of(case["stamp"]), case["op"]
    assert (element.hex(), value.hex()) == (case["element_hex"], case["value_hex"])
    check_entry("fjord", element, op, value)
    data = entry_bytes(element, stamp, op, value)
    assert data.hex() == case["entry_hex"] == reader.entry_bytes(element, stamp, op, value).hex()
    assert (key_hash(element) + entry_digest(data)).hex() == case["record_hex"]
    assert reader.record(element, stamp, op, value).hex() == case["record_hex"]


@pytest.mark.parametrize("case", cases("entries", "refused") + cases("entries", "edges"))
def test_an_entry_is_taken_or_refused_with_its_code(case: Json) -> None:
    element, value = bytes_of(case["element"]), bytes_of(case["value"])
    if "code" not in case:
        check_entry("fjord", element, case["op"], value)
        return
    with pytest.raises(ProtocolError) as caught:
        check_entry("fjord", element, case["op"], value)
    assert caught.value.code == case["code"]


def by_rule(rule: str, count: int) -> list[bytes]:
    """Records as the file describes them, made by the second decoder."""
    if rule == "same key":
        return [b"\x5a" * 8 + n.to_bytes(16, "big") for n in range(1, count + 1)]
    found = []
    for n in range(1, count + 1):
        address = f"10.0.{n // 250}.{n % 250 + 1}"
        element = reader.pack([1, "fjord", "shop", f"svc-{n % 50}", address, None])
        gone = n % 10 == 0
        value = reader.pack(None if gone else [n % 8, None, None, None, None])
        found.append(reader.record(element, 1000 + n, int(gone), value))
    return found


@pytest.mark.parametrize("case", cases("digests"))
def test_a_set_has_its_root(case: Json) -> None:
    records = by_rule(case["rule"], case["count"])
    assert reader.root(records).hex() == case["root"]
    assert MerkleDigest(records).root().hex() == case["root"]


# ---- heads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("heads"))
def test_a_head_has_its_bytes_and_signature(case: Json) -> None:
    items = value_of(case["items"])
    head = head_of(items)
    assert head.canonical().hex() == case["signed_hex"] == reader.signed_bytes(items).hex()
    assert encode_head(head).hex() == case["encoded_hex"] == reader.pack(items).hex()
    assert decode_head(bytes.fromhex(case["encoded_hex"])) == head
    key = FILES["heads.json"]["keys"][head.origin.cluster]
    data = bytes.fromhex(case["signed_hex"])
    if key["kind"] == "Ed25519":
        private = ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(key["private_hex"]))
        assert private.sign(data) == head.signature
    else:
        number = int(key["private_number"])
        public = ec.derive_private_key(number, ec.SECP256R1()).public_key()
        public.verify(head.signature, data, ec.ECDSA(SHA256()))


@pytest.mark.parametrize("case", cases("verification"))
def test_a_head_is_believed_or_refused_with_its_code(case: Json) -> None:
    found = FILES["verification.json"]
    root = x509.load_der_x509_certificate(bytes.fromhex(found["root_hex"]))
    head = head_of(value_of(case["head"]))
    record = message_of("Record", value_of(case["record"]))
    assert isinstance(record, m.Record)
    outcome = "good"
    try:
        TrustStore([root], found["clusterset"]).verify(head, record)
    except ProtocolError as error:
        outcome = error.code
    assert outcome == case["outcome"]


# ---- frames -------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("frames"))
def test_a_message_has_its_frame_and_reads_back(case: Json) -> None:
    frame, fields = bytes.fromhex(case["hex"]), value_of(case["fields"])
    message = message_of(case["message"], fields)
    assert encode(message) == frame
    assert decode(frame) == message
    assert reader.read_frame(frame) == (case["message"], fields)


@pytest.mark.parametrize("case", cases("frames", "read_only"))
def test_a_frame_in_another_form_reads_as_the_same(case: Json) -> None:
    frame = bytes.fromhex(case["hex"])
    message = message_of(case["message"], value_of(case["fields"]))
    assert decode(frame) == message
    assert encode(message) != frame
    name, fields = reader.read_frame(frame)
    assert message_of(str(name), fields) == message


@pytest.mark.parametrize("case", cases("frames", "packed"))
def test_a_packed_frame_reads_as_the_transfer_it_stands_for(case: Json) -> None:
    frame, fields = bytes.fromhex(case["hex"]), value_of(case["fields"])
    message = message_of("Transfer", fields)
    assert decode(frame) == message
    assert reader.read_frame(frame) == ("Transfer", fields)
    assert isinstance(message, m.Transfer)
    again = encode_packed(message)
    assert decode(again) == message
    assert reader.read_frame(again) == ("Transfer", fields)


def test_both_sides_know_the_same_dictionary() -> None:
    told = FILES["frames.json"]["dictionary_hex"]
    assert told == reader.DICTIONARY.hex()
    assert f"\n    {told}\n" in (ROOT / "docs" / "protocol.md").read_text("utf-8")


@pytest.mark.parametrize("case", cases("frames", "unknown"))
def test_a_message_of_an_unknown_type_is_set_aside(case: Json) -> None:
    frame = bytes.fromhex(case["hex"])
    assert decode(frame) == m.Unknown(case["type"])
    assert reader.read_frame(frame) == (case["type"], [])


@pytest.mark.parametrize("case", cases("refused"))
def test_a_frame_is_refused_with_its_code(case: Json) -> None:
    frame = bytes_of(case)
    with pytest.raises(ProtocolError) as caught:
        decode(frame)
    assert caught.value.code == case["code"]
    with pytest.raises(reader.Refused) as again:
        reader.read_frame(frame)
    assert again.value.code == case["code"]


# ---- summaries ----------------------------------------------------------------------------------


def replica_of(rows: list[Any]) -> Replica:
    """A replica that has committed heads with these states and published none."""
    remotes = []
    for cluster, shard, epoch, stamp, floor, count, root in rows:
        remote = RemoteOrigin(Origin(cluster, shard))
        state = (stamp, floor, count, root)
        remote.head = Head(remote.origin, epoch, None, *state, 0, 0, b"")
        remotes.append(remote)
    own = OwnOrigin(
        Origin("me"), FakeSigner("me"), epoch=1, clock=StampClock(), elements=OriginSet()
    )
    me = Self("set", "me", "instance", "uid", "test")
    return Replica(me, own, FakeVerifier(), remotes)


@pytest.mark.parametrize("case", cases("summaries", "digests"))
def test_all_heads_have_one_digest(case: Json) -> None:
    rows = value_of(case["heads"])
    assert replica_of(rows).announcements.digest().hex() == case["hex"]
    assert replica_of(rows[::-1]).announcements.digest().hex() == case["hex"]
    data = reader.pack(sorted(rows, key=lambda row: (row[0].encode(), row[1])))
    assert blake2b(data, digest_size=8).hexdigest() == case["hex"]


@pytest.mark.parametrize("case", cases("summaries", "exchanges"))
def test_four_times_give_round_trip_and_offset(case: Json) -> None:
    sent, theirs, answered, heard = case["times"]
    found = exchange(sent, theirs, answered, heard)
    assert (found.rtt_ns, found.offset_ns) == (case["round_trip"], case["offset"])
    assert max(0, (heard - sent) - (answered - theirs)) == case["round_trip"]
    assert ((theirs - sent) + (answered - heard)) // 2 == case["offset"]


# ---- histories ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("histories"))
def test_a_receiver_makes_of_each_transfer_what_is_said(case: Json) -> None:
    found = FILES["histories.json"]
    root = x509.load_der_x509_certificate(bytes.fromhex(found["root_certificate"]))
    trust = TrustStore([root], found["clusterset"])
    key_id, chain = found["record"]["key_id"], found["record"]["chain"]
    chain = tuple(map(bytes.fromhex, chain))
    record = m.Record(Origin("fjord"), bytes.fromhex(key_id), chain)
    remote = RemoteOrigin(record.origin)
    for step in case["steps"]:
        chunk = decode(bytes.fromhex(step["hex"]))
        assert isinstance(chunk, m.Transfer)
        try:
            outcome = remote.take(chunk, trust, record).outcome.value
        except ProtocolError as error:
            outcome = error.code
        assert outcome == step["outcome"]
        assert remote.version == Version(step["epoch"], int(step["stamp"]))
        assert (len(remote.elements), remote.elements.root().hex()) == (step["count"], step["root"])


@pytest.mark.parametrize("case", cases("histories"))
def test_a_receiver_written_from_the_page_does_the_same(case: Json) -> None:
    leaf = bytes.fromhex(FILES["histories.json"]["record"]["chain"][0])
    key = x509.load_der_x509_certificate(leaf).public_key()
    assert isinstance(key, ed25519.Ed25519PublicKey)

    def genuine(signature: bytes, data: bytes) -> bool:
        try:
            key.verify(signature, data)
        except InvalidSignature:
            return False
        return True

    receiver = Receiver(genuine)
    for step in case["steps"]:
        assert receiver.take(bytes.fromhex(step["hex"])) == step["outcome"]
        assert receiver.version == (step["epoch"], int(step["stamp"]))
        assert len(receiver.state) == step["count"]
        if receiver.head is not None:
            assert receiver.head[7].hex() == step["root"]


def test_the_page_names_every_file_of_vectors_by_its_folder() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text("utf-8")
    assert "`tests/data/vectors/`" in page
    assert {path.name for path in generate.FOLDER.glob("*.json")} == set(generate.MAKERS)
