"""Whether a snapshot file is true: every kind of damage is found, and nothing else is."""

from __future__ import annotations

import copy
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from clusters.model import Endpoint
from crdt import Entry, pack
from crdt.entries import ADD, NIL, REMOVE, entry_bytes
from replicator import codec
from replicator.messages import Record
from replicator.pki import Issued
from replicator.projection import endpoint_element, endpoint_value
from replicator.signing import Verifier, key_id_of
from replicator.snapshots import OriginSnapshot, parse
from replicator.verdicts import Verdict, verify
from tests.replicator.snapshot_bed import (
    CART,
    HTTP,
    STAMP,
    Bed,
    entries_of,
    fjord_entries,
    head_of,
    mesa_entries,
    origin,
    reread,
    signed,
    signed_again,
    stamped,
    with_head,
)
from tests.support.certificates import authority, pair

Json = dict[str, Any]


@pytest.fixture(scope="module")
def bed() -> Bed:
    return Bed()


@pytest.fixture
def document(bed: Bed) -> Json:
    return bed.document()


def judge(document: Json, verifier: Verifier | None = None) -> list[Verdict]:
    """The verdicts on a document."""
    return verify(parse(document), verifier)


def codes(document: Json, verifier: Verifier | None = None) -> dict[str, list[str]]:
    """The codes of the problems of each origin that has any."""
    return {
        verdict.cluster: [problem.code for problem in verdict.problems]
        for verdict in judge(document, verifier)
        if not verdict.good
    }


# ---- good files ----------------------------------------------------------------------------------


def test_a_file_as_exported_is_good_and_trusted(bed: Bed, document: Json) -> None:
    verdicts = judge(document, bed.trust())
    assert verdicts == [
        Verdict("fjord", 0, len(fjord_entries()), "trusted"),
        Verdict("mesa", 0, len(mesa_entries()), "trusted"),
        Verdict("tundra", 0, 0, "trusted"),
    ]
    assert all(verdict.good for verdict in verdicts)


def test_without_a_bundle_signatures_are_only_called_intact(document: Json) -> None:
    assert [verdict.signature for verdict in judge(document)] == ["intact"] * 3


def test_what_was_verified_was_not_changed_by_it(bed: Bed, document: Json) -> None:
    before = copy.deepcopy(document)
    judge(document, bed.trust())
    assert document == before


def test_the_order_of_the_file_plays_no_part(bed: Bed, document: Json) -> None:
    for name in ("entries", "items", "origins"):
        document[name].reverse()
    verdicts = judge(document, bed.trust())
    assert [verdict.cluster for verdict in verdicts] == ["tundra", "mesa", "fjord"]
    assert all(verdict.good for verdict in verdicts)


def test_a_verdict_as_json(document: Json) -> None:
    origin(document, "mesa")["count"] = 4
    good, bad, _ = (verdict.to_json() for verdict in judge(document))
    assert good == {
        "cluster": "fjord",
        "entries": 10,
        "good": True,
        "problems": [],
        "shard": 0,
        "signature": "intact",
    }
    message = "count is not what the signed head says"
    assert bad["problems"] == [{"code": "readable_differs", "message": message}]
    assert bad["good"] is False


def test_a_file_of_an_agent_without_any_head_is_good() -> None:
    empty = {"format": "replicator.snapshot/1", "clusterset": "prod", "cluster": "mesa"}
    lists: Json = {"entries": [], "items": [], "origins": []}
    assert judge({**empty, **lists, "taken_at": "now"}) == []


def test_a_chain_through_an_ed25519_key_is_intact(bed: Bed) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    state = signed(_certified(bed, key), "mesa", mesa_entries())
    assert codes(bed.document(mesa=state)) == {}


def _certified(bed: Bed, key: Any) -> Issued:
    """The certificate of mesa for another key."""
    old = bed.pairs["mesa"].certificate
    builder = x509.CertificateBuilder(
        subject_name=old.subject,
        issuer_name=old.issuer,
        public_key=key.public_key(),
        serial_number=7,
        not_valid_before=old.not_valid_before_utc,
        not_valid_after=old.not_valid_after_utc,
        extensions=list(old.extensions),
    )
    return Issued(builder.sign(bed.authority.key, old.signature_hash_algorithm), key)  # type: ignore[arg-type]  # of a good certificate


# ---- flipped bits --------------------------------------------------------------------------------


def only(document: Json, cluster: str) -> Json:
    """The part of a document that is of one cluster."""
    return {
        **document,
        "origins": [origin(document, cluster)],
        "entries": entries_of(document, cluster),
        "items": [row for row in document["items"] if row["tag"].startswith(f"{cluster}:")],
    }


@pytest.mark.parametrize("number", range(3))
def test_every_bit_of_an_entry_counts(document: Json, number: int) -> None:
    part = only(document, "mesa")
    assert codes(part) == {}
    row = part["entries"][number]
    raw = b64decode(row["raw"])
    for bit in range(0, 8 * len(raw), 3):
        row["raw"] = b64encode(flipped(raw, bit)).decode()
        assert codes(part), f"bit {bit} of {row['element']}"


def flipped(data: bytes, bit: int) -> bytes:
    """``data`` with one bit changed."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_every_bit_of_a_head_counts(document: Json) -> None:
    part = only(document, "tundra")
    head = b64decode(origin(part, "tundra")["head"])
    for bit in range(8 * len(head)):
        found = codes(with_head(part, "tundra", flipped(head, bit)))
        assert list(found) == ["tundra"], f"bit {bit}"


def test_bits_of_a_certificate_count_without_a_bundle(bed: Bed, document: Json) -> None:
    der = bed.states["mesa"].record.chain[0]
    part = only(document, "mesa")
    for bit in range(0, 8 * len(der), 41):
        origin(part, "mesa")["record"]["chain"] = [pem(flipped(der, bit))]
        assert list(codes(part)) == ["mesa"], f"bit {bit}"


def pem(der: bytes) -> str:
    """DER as PEM, whatever it says."""
    text = b64encode(der).decode()
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"count": 4}, "count_differs"),
        ({"root": b"\x01" * 32}, "root_differs"),
        ({"stamp": STAMP + 1}, "beyond_head"),
    ],
)
def test_a_head_that_its_owner_signed_but_the_entries_do_not_fulfil(
    bed: Bed, change: Json, code: str
) -> None:
    state = bed.states["mesa"]
    wrong = signed_again(bed.pairs["mesa"], state, replace(state.head, **change))
    assert codes(bed.document(mesa=wrong), bed.trust()) == {"mesa": [code]}


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({"count": 4}, ["readable_differs", "bad_signature", "count_differs"]),
        ({"root": b"\x01" * 32}, ["readable_differs", "bad_signature", "root_differs"]),
        ({"epoch": 2}, ["readable_differs", "bad_signature"]),
        ({"issued_at": 5}, ["bad_signature"]),
        ({"signature": b"nothing"}, ["bad_signature"]),
        ({"signature": b""}, ["bad_signature"]),
    ],
)
def test_a_changed_head_is_not_what_was_signed(
    document: Json, change: Json, more: list[str]
) -> None:
    head = replace(head_of(document, "mesa"), **change)
    found = codes(with_head(document, "mesa", codec.encode_head(head)))
    assert found == {"mesa": more}


# ---- whose word ----------------------------------------------------------------------------------


def test_a_chain_of_another_authority_is_found_with_the_bundle_only(bed: Bed) -> None:
    stranger = signed(pair(authority(), "mesa"), "mesa", mesa_entries())
    document = bed.document(mesa=stranger)
    assert codes(document, bed.trust()) == {"mesa": ["untrusted_chain"]}
    assert [verdict.signature for verdict in judge(document, bed.trust())][1] == "bad"
    assert codes(document) == {}


def test_another_clusters_certificate_does_not_speak_for_this_one(bed: Bed) -> None:
    forged = signed(bed.pairs["fjord"], "mesa", mesa_entries())
    document = bed.document(mesa=forged)
    assert codes(document, bed.trust()) == {"mesa": ["identity_mismatch"]}


def test_the_chain_of_another_cluster_put_in_is_found_in_any_case(bed: Bed, document: Json) -> None:
    origin(document, "mesa")["record"] = copy.deepcopy(origin(document, "fjord")["record"])
    assert codes(document) == {"mesa": ["unknown_key"]}
    assert codes(document, bed.trust()) == {"mesa": ["unknown_key"]}


def test_a_named_key_that_is_not_that_of_the_certificate(document: Json) -> None:
    origin(document, "mesa")["record"]["key_id"] = "00" * 16
    assert codes(document) == {"mesa": ["unknown_key"]}


def test_a_new_certificate_under_the_old_key_id_is_found(bed: Bed, document: Json) -> None:
    other = pair(bed.authority, "mesa").certificate
    row = origin(document, "mesa")["record"]
    row["chain"] = [other.public_bytes(Encoding.PEM).decode()]
    assert codes(document) == {"mesa": ["unknown_key"]}


def test_a_file_of_another_clusterset_is_not_trusted(bed: Bed, document: Json) -> None:
    found = codes(document, bed.trust("staging"))
    assert found == {name: ["identity_mismatch"] for name in ("fjord", "mesa", "tundra")}


def test_an_rsa_key_signs_no_heads(bed: Bed) -> None:
    issued = _certified(bed, rsa.generate_private_key(65537, 2048))
    assert codes(_under(bed, issued.certificate.public_bytes(Encoding.DER))) == {
        "mesa": ["unknown_key"]
    }


def test_a_key_on_an_unknown_curve_is_a_verdict_and_no_crash(bed: Bed) -> None:
    der = bed.states["mesa"].record.chain[0]
    known, unknown = bytes.fromhex("2a8648ce3d030107"), bytes.fromhex("2a8648ce3d03017f")
    assert known in der
    document = _under(bed, der.replace(known, unknown))
    assert codes(document) == {"mesa": ["unknown_key"]}
    assert codes(document, bed.trust()) == {"mesa": ["untrusted_chain"]}


def _under(bed: Bed, der: bytes) -> Json:
    """The document with mesa's head under a certificate it is not signed by."""
    state = bed.states["mesa"]
    head = replace(state.head, key_id=key_id_of(der))
    record = Record(head.origin, head.key_id, (der,))
    return bed.document(mesa=OriginSnapshot(head, record, state.entries))


# ---- heads and records that cannot be read -------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("head", "no base64!"),
        ("head", "ä"),
        ("head", ""),
        ("head", "wA=="),
        ("head", b64encode(b"\x91\x01").decode()),
    ],
)
def test_a_head_that_cannot_be_read_is_a_verdict(document: Json, field: str, value: str) -> None:
    origin(document, "mesa")[field] = value
    verdict = judge(document)[1]
    assert [problem.code for problem in verdict.problems] == ["bad_head"]
    assert (verdict.signature, verdict.entries) == ("unread", 3)


@pytest.mark.parametrize(
    "change", [{"key_id": "xyz"}, {"chain": ["no PEM"]}, {"chain": ["\ud800"]}]
)
def test_a_record_that_cannot_be_read_is_a_verdict(document: Json, change: Json) -> None:
    origin(document, "mesa")["record"].update(change)
    assert codes(document) == {"mesa": ["bad_head"]}


@pytest.mark.parametrize("change", [{"cluster": "Mesa!"}, {"shard": 1}, {"cluster": "delta"}])
def test_an_origin_that_says_it_is_another(document: Json, change: Json) -> None:
    origin(document, "mesa").update(change)
    found = codes(document)
    assert "wrong_origin" in found[change.get("cluster", "mesa")]


def test_the_head_of_another_origin_put_in(document: Json) -> None:
    origin(document, "mesa")["head"] = origin(document, "tundra")["head"]
    origin(document, "mesa")["record"] = origin(document, "tundra")["record"]
    assert codes(document) == {
        "mesa": ["wrong_origin", "beyond_head", "count_differs", "root_differs"]
    }


# ---- missing, repeated and foreign entries -------------------------------------------------------


def test_a_missing_entry(bed: Bed, document: Json) -> None:
    gone = next(row for row in entries_of(document, "fjord") if row["op"] == "remove")
    document["entries"].remove(gone)
    assert codes(document, bed.trust()) == {"fjord": ["count_differs", "root_differs"]}


def test_all_entries_of_an_origin_missing(document: Json) -> None:
    document["entries"] = entries_of(document, "fjord")
    document["items"] = [row for row in document["items"] if row["tag"].startswith("fjord:")]
    assert codes(document) == {"mesa": ["count_differs", "root_differs"]}


def test_an_origin_missing_with_its_entries_left(document: Json) -> None:
    document["origins"].remove(origin(document, "mesa"))
    found = judge(document)
    assert found[2].to_json()["problems"] == [
        {"code": "no_head", "message": "3 entries of an origin without a head"}
    ]
    assert (found[2].cluster, found[2].signature, found[2].entries) == ("mesa", "unread", 3)
    assert [problem.code for problem in found[3].problems] == ["readable_differs"]


def extra(document: Json, element: bytes, value: bytes, stamp: int = STAMP + 1) -> None:
    """Put an entry in that nobody signed for."""
    raw = b64encode(entry_bytes(element, stamp, ADD, value)).decode()
    row = {"element": ["endpoint", "mesa"], "op": "add", "tag": f"mesa:{stamp}", "value": None}
    document["entries"].append({**row, "raw": raw})


def test_an_extra_entry(document: Json) -> None:
    endpoint = Endpoint("10.66.6.6", HTTP)
    extra(document, endpoint_element("mesa", CART, endpoint), endpoint_value(endpoint))
    found = codes(document)
    assert found["mesa"] == ["readable_differs", "count_differs", "root_differs"]


def test_an_extra_entry_later_than_the_head(document: Json) -> None:
    endpoint = Endpoint("10.66.6.6", HTTP)
    element = endpoint_element("mesa", CART, endpoint)
    extra(document, element, endpoint_value(endpoint), STAMP + 99)
    assert "beyond_head" in codes(document)["mesa"]


def test_an_entry_given_twice(document: Json) -> None:
    document["entries"].append(entries_of(document, "mesa")[1])
    assert codes(document) == {"mesa": ["repeated"]}


def test_an_origin_given_twice(document: Json) -> None:
    document["origins"].append(origin(document, "tundra"))
    assert codes(document) == {"tundra": ["repeated"]}


# ---- entries that no origin may state ------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ((pack([2, "mesa"]), STAMP, ADD, pack([None, {}])), "bad_entry"),
        ((pack([2, "mesa", 1, 2]), STAMP, ADD, pack([None, {}])), "bad_entry"),
        ((pack([2, "mesa", "a", "b"]), STAMP, ADD, pack([None, []])), "bad_entry"),
        ((pack([1, "mesa", "a", "b", 4, None]), STAMP, ADD, pack([7] + 4 * [None])), "bad_entry"),
        ((pack([1, "mesa", "a", "b", "::1", None]), STAMP, ADD, NIL), "bad_entry"),
        ((pack([3, "mesa"]), STAMP, ADD, pack(["eu"])), "bad_entry"),
        ((pack([9, "mesa"]), STAMP, REMOVE, pack(1)), "bad_entry"),
        ((pack([9, "mesa"]), STAMP, ADD, pack("x" * 70_000)), "too_large"),
        ((pack(["9", "mesa"]), STAMP, ADD, NIL), "bad_entry"),
    ],
)
def test_an_entry_of_the_wrong_schema_is_found_even_if_signed(
    bed: Bed, entry: Entry, code: str
) -> None:
    document = bed.document()
    rows = [*stamped([]), entry]
    state = signed(bed.pairs["mesa"], "mesa", rows)
    other = bed.document(mesa=OriginSnapshot(state.head, state.record, []))
    document["origins"] = other["origins"]
    document["entries"] = entries_of(document, "fjord")
    raw = b64encode(entry_bytes(*entry)).decode()
    document["entries"].append({"element": ["export", "mesa"], "raw": raw})
    assert codes(document, bed.trust()) == {"mesa": [code]}


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"\xc1", "not MessagePack"),
        (b"\x01", "canonical"),
        (b"\x94\x90\x01\x00\xc0", "names no cluster"),
        (entry_bytes(pack([9]), 1, ADD, NIL), "names no cluster"),
        (entry_bytes(pack([9, 5]), 1, ADD, NIL), "names no cluster"),
        (entry_bytes(pack([9, "Mesa!"]), 1, ADD, NIL), "names no cluster"),
        (entry_bytes(pack([9, "mesa"]), -1, ADD, NIL), "canonical"),
        (entry_bytes(pack([9, "mesa"]), 2**63, ADD, NIL), "canonical"),
        (entry_bytes(pack([9, "mesa"]), 1, 2, NIL), "canonical"),
        (entry_bytes(pack([9, "mesa"]), 1, ADD, b"\xcc\x01"), "canonical"),
    ],
)
def test_an_entry_that_cannot_be_read_counts_for_whom_it_names(
    document: Json, raw: bytes, said: str
) -> None:
    document["entries"].append({"element": ["export", "mesa"], "raw": b64encode(raw).decode()})
    found = {verdict.cluster: verdict.problems for verdict in judge(document)}
    assert [problem.code for problem in found["mesa"]] == ["bad_entry"]
    index = len(document["entries"]) - 1
    assert found["mesa"][0].message.startswith(f"entries[{index}]: ")
    assert said in found["mesa"][0].message


@pytest.mark.parametrize("element", [None, [], ["export"], ["export", 5], "mesa"])
def test_an_entry_that_cannot_be_read_and_names_nobody_counts_for_the_file(
    document: Json, element: object
) -> None:
    document["entries"].append({"element": element, "raw": "?"})
    assert codes(document) == {"": ["bad_entry"]}


# ---- readable parts ------------------------------------------------------------------------------


def _entry_row(document: Json) -> Json:
    return next(row for row in document["entries"] if row["tag"] == f"fjord:{STAMP + 1}")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("tag",), f"fjord:{STAMP + 2}"),
        (("op",), "remove"),
        (("element",), ["endpoint", "fjord", "shop", "cart", "10.20.1.5", None]),
        (("element", 4), "10.20.1.5"),
        (("value", "ready"), False),
        (("value", "ready"), 1),
        (("value", "zone"), None),
        (("value", "more"), None),
        (("value",), None),
    ],
)
def test_an_edited_entry(document: Json, path: tuple[str | int, ...], value: object) -> None:
    holder: Any = _entry_row(document)
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    found = judge(document)[0].problems
    assert [problem.code for problem in found] == ["readable_differs"]
    index = document["entries"].index(_entry_row(document)) if path[0] != "tag" else 1
    assert found[0].message == f"entries[{index}]: {path[0]} is not what its bytes say"


@pytest.mark.parametrize("name", ["element", "op", "tag", "value"])
def test_a_readable_part_that_is_missing(document: Json, name: str) -> None:
    del entries_of(document, "mesa")[0][name]
    assert codes(document)["mesa"] == ["readable_differs"]


def test_other_base64_of_the_same_bytes_is_another_raw(document: Json) -> None:
    row = next(row for row in document["entries"] if row["raw"].endswith("="))
    padding = row["raw"].count("=")
    body = row["raw"].rstrip("=")
    row["raw"] = body[:-1] + chr(ord(body[-1]) + 1) + "=" * padding
    assert list(codes(document).values()) == [["readable_differs"]]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", 4),
        ("count", None),
        ("epoch", "2"),
        ("epoch", 1),
        ("floor", "1"),
        ("root", "00" * 32),
        ("stamp", f"mesa:{STAMP}"),
    ],
)
def test_an_edited_origin(document: Json, name: str, value: object) -> None:
    origin(document, "mesa")[name] = value
    verdict = judge(document)[1]
    assert [problem.message for problem in verdict.problems] == [
        f"{name} is not what the signed head says"
    ]


def _drop(items: list[Json]) -> None:
    items.pop()


def _repeat(items: list[Json]) -> None:
    items.append(items[0])


def _more(items: list[Json]) -> None:
    items[0]["more"] = None


def _unready(items: list[Json]) -> None:
    items[0]["ready"] = False


def _number(items: list[Json]) -> None:
    items[0]["ready"] = 1


def _port(items: list[Json]) -> None:
    items[0]["ports"][0]["port"] = 8081


@pytest.mark.parametrize("edit", [_drop, _repeat, _more, _unready, _number, _port])
def test_edited_items(document: Json, edit: Callable[[list[Json]], None]) -> None:
    edit(document["items"])
    last = judge(document)[-1]
    assert (last.cluster, last.entries) == ("", len(document["items"]))
    assert "are not what the entries make visible (4)" in last.problems[0].message
    assert codes(document) == {"": ["readable_differs"]}


def test_when_an_origin_cannot_be_read_its_items_are_not_held_against_the_file(
    document: Json,
) -> None:
    origin(document, "mesa")["head"] = "?"
    assert list(codes(document)) == ["mesa"]


def test_the_order_of_keys_in_items_plays_no_part(document: Json) -> None:
    document["items"] = [dict(reversed(item.items())) for item in document["items"]]
    assert codes(reread(document)) == {}
