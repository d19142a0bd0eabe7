"""Whether a snapshot file is true: one verdict per origin.

Only bytes are believed.  Each origin's set is rebuilt from the canonical entry bytes, its count and
root are compared with the head, the head's signature with the key of its certificate, the
certificate with the trust bundle if one is given, and the readable parts with all of that.  A file
can therefore be good only if every origin in it said exactly this.  Pure.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256

from crdt import Entry, Head, OriginSet
from replicator.errors import ProtocolError
from replicator.identity import is_label
from replicator.kinds import check_entry, unpack
from replicator.messages import Record
from replicator.signing import Verifier, key_id_of
from replicator.snapshots import (
    Json,
    Snapshot,
    StatedOrigin,
    decode_origin,
    decode_raw,
    entry_json,
    readable_head,
    visible_items,
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it should be."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found about one origin (or, with ``cluster`` "", about the file)."""

    cluster: str
    shard: int
    entries: int
    signature: str
    """``trusted`` (up to the bundle), ``intact`` (no bundle given), ``bad`` or ``unread``."""
    problems: tuple[Problem, ...] = ()

    @property
    def good(self) -> bool:
        """Nothing is wrong."""
        return not self.problems

    def to_json(self) -> Json:
        """The row that ``snapshot verify`` prints."""
        return {
            "cluster": self.cluster,
            "entries": self.entries,
            "good": self.good,
            "problems": [{"code": item.code, "message": item.message} for item in self.problems],
            "shard": self.shard,
            "signature": self.signature,
        }


@dataclass(slots=True)
class _Claim:
    """The entries a file gives for one cluster, and what is wrong with them."""

    entries: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    sound: bool = True
    """Whether every entry is one that an origin may state, so that all can be shown."""

    def add(self, index: int, entry: Entry, cluster: str, row: Json) -> None:
        """Take ``entries[index]`` of the file, which decodes to ``entry`` of ``cluster``."""
        self.entries.append(entry)
        element, _, op, value = entry
        try:
            check_entry(cluster, element, op, value)
        except ProtocolError as error:
            self.sound = False
            self.problems.append(Problem(error.code, f"entries[{index}]: {error.message}"))
            return
        different = _different(entry_json(entry), row)
        if different:
            message = f"entries[{index}]: {different} is not what its bytes say"
            self.problems.append(Problem("readable_differs", message))


def _same(one: object, other: object) -> bool:
    """Whether two JSON values are equal, true not being 1; ``one`` is not deep."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def _different(right: Json, stated: Json) -> str:
    """The names under which ``stated`` does not say what ``right`` does."""
    names = [key for key in right if key not in stated or not _same(right[key], stated[key])]
    return ", ".join(sorted(names))


def _named_cluster(row: Json) -> str:
    """Whose entry a row that cannot be read claims to be, "" if nobody's."""
    match row.get("element"):
        case [_, str(cluster), *_]:
            return cluster
        case _:
            return ""


def _owner(entry: Entry) -> str:
    """The cluster in an element's key; raises ValueError if there is none."""
    match unpack(entry[0]):
        case [_, str(cluster), *_] if is_label(cluster):
            return cluster
        case _:
            message = "its element names no cluster"
            raise ValueError(message)


def _claims(snapshot: Snapshot) -> dict[str, _Claim]:
    claims: dict[str, _Claim] = {}
    for index, row in enumerate(snapshot.entries):
        try:
            entry = decode_raw(row["raw"])
            cluster = _owner(entry)
        except ValueError as error:
            claim = claims.setdefault(_named_cluster(row), _Claim())
            claim.problems.append(Problem("bad_entry", f"entries[{index}]: {error}"))
        else:
            claims.setdefault(cluster, _Claim()).add(index, entry, cluster, row)
    return claims


def _rebuilt(head: Head, claim: _Claim) -> tuple[OriginSet | None, list[Problem]]:
    """The origin's set made anew from its entries (None if that fails), and how it differs."""
    repeated = [key for key, times in Counter(e[0] for e in claim.entries).items() if times > 1]
    if repeated:
        return None, [Problem("repeated", f"{len(repeated)} elements are given more than once")]
    problems = []
    later = sum(1 for entry in claim.entries if entry[1] > head.stamp)
    if later:
        problems.append(Problem("beyond_head", f"{later} entries are later than the head"))
    found = OriginSet.restored(head.version, head.floor, claim.entries)
    if len(found) != head.count:
        message = f"the file has {len(found)} entries, the head says {head.count}"
        problems.append(Problem("count_differs", message))
    if found.root() != head.root:
        message = f"the root is {found.root().hex()[:16]}, the head says {head.root.hex()[:16]}"
        problems.append(Problem("root_differs", message))
    return found, problems


def _signature_problem(head: Head, record: Record) -> Problem | None:
    """Whether the key of the first certificate in ``record`` signed ``head``."""
    if not head.key_id == record.key_id == key_id_of(record.chain[0]):
        return Problem("unknown_key", "the head names another key than that of its certificate")
    try:
        key = x509.load_der_x509_certificate(record.chain[0]).public_key()
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(head.signature, head.canonical())
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(head.signature, head.canonical(), ec.ECDSA(SHA256()))
        else:
            return Problem("unknown_key", "the certificate's key is neither Ed25519 nor ECDSA")
    except (ValueError, UnsupportedAlgorithm):
        return Problem("unknown_key", "the certificate's key cannot be read")
    except InvalidSignature:
        return Problem("bad_signature", "the signature of the head does not verify")
    return None


def _signature(head: Head, record: Record, verifier: Verifier | None) -> tuple[str, list[Problem]]:
    if verifier is None:
        problem = _signature_problem(head, record)
        return ("intact", []) if problem is None else ("bad", [problem])
    try:
        verifier.verify(head, record)
    except ProtocolError as error:
        return "bad", [Problem(error.code, error.message)]
    return "trusted", []


def _head_problems(stated: StatedOrigin, head: Head) -> list[Problem]:
    if (stated.cluster, stated.shard) != head.origin:
        message = f"the head is that of {head.origin.cluster}, shard {head.origin.shard}"
        return [Problem("wrong_origin", message)]
    different = _different(readable_head(head), stated.readable)
    message = f"{different} is not what the signed head says"
    return [Problem("readable_differs", message)] if different else []


def _verdict(
    stated: StatedOrigin, claim: _Claim, verifier: Verifier | None
) -> tuple[Verdict, OriginSet | None]:
    problems = list(claim.problems)
    entries = len(claim.entries)
    try:
        head, record = decode_origin(stated)
    except (ValueError, ProtocolError) as error:
        problems.append(Problem("bad_head", f"head or record cannot be read: {error}"))
        return Verdict(stated.cluster, stated.shard, entries, "unread", tuple(problems)), None
    problems.extend(_head_problems(stated, head))
    signature, wrong = _signature(head, record, verifier)
    problems.extend(wrong)
    found, wrong = _rebuilt(head, claim)
    problems.extend(wrong)
    shown = found if claim.sound and head.origin == (stated.cluster, stated.shard) else None
    return Verdict(stated.cluster, stated.shard, entries, signature, tuple(problems)), shown


def _in_order(items: Iterable[Json]) -> list[Json]:
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _items_problem(snapshot: Snapshot, items: list[Json]) -> Problem | None:
    if _same(_in_order(items), _in_order(snapshot.items)):
        return None
    stated = len(snapshot.items)
    message = f"items ({stated}) are not what the entries make visible ({len(items)})"
    return Problem("readable_differs", message)


def _headless(cluster: str, claim: _Claim) -> Verdict:
    """The verdict on entries of a cluster for which the file has no origin."""
    problems = list(claim.problems)
    count = len(claim.entries)
    if count:
        problems.append(Problem("no_head", f"{count} entries of an origin without a head"))
    return Verdict(cluster, 0, count, "unread", tuple(problems))


def verify(snapshot: Snapshot, verifier: Verifier | None) -> list[Verdict]:
    """Judge every origin of ``snapshot``, in the order of the file.

    Without ``verifier`` signatures are checked with the key that came along, which shows damage but
    not forgery.  Entries of a cluster that has no head, and a wrong list of items, come last.
    That an origin is missing with all its entries, nothing in a file can show.
    """
    claims = _claims(snapshot)
    verdicts, items, complete = [], [], True
    known: set[str] = set()
    for stated in snapshot.origins:
        claim = claims.pop(stated.cluster, _Claim())
        if stated.cluster in known:
            claim.problems.append(Problem("repeated", "the origin is given more than once"))
        known.add(stated.cluster)
        verdict, elements = _verdict(stated, claim, verifier)
        verdicts.append(verdict)
        complete = complete and elements is not None
        items.extend(visible_items(stated.cluster, elements) if elements is not None else [])
    verdicts.extend(_headless(cluster, claim) for cluster, claim in sorted(claims.items()))
    wrong = _items_problem(snapshot, items) if complete else None
    if wrong is not None:
        verdicts.append(Verdict("", 0, len(snapshot.items), "unread", (wrong,)))
    return verdicts
