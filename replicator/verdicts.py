"""Whether a snapshot file is true: one verdict per origin.

Only bytes are believed.  Each origin's set is rebuilt from the canonical entry bytes, its count and
root are compared with the head, the head's signature with the key of its certificate, the
certificate with the trust bundle if one is given, and the readable parts with all of that.  A file
can therefore be good only if every origin in it said exactly this.  Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256

from crdt import Entry, Head, OriginSet
from replicator.errors import ProtocolError
from replicator.kinds import check_entry
from replicator.messages import Record
from replicator.signing import Verifier
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


def _claims(snapshot: Snapshot) -> dict[str, _Claim]:
    claims: dict[str, _Claim] = {}
    for index, row in enumerate(snapshot.entries):
        element = row.get("element")
        try:
            entry = decode_raw(row["raw"])
            readable = entry_json(entry)
            cluster = str(readable["element"][1])
        except (ValueError, TypeError, KeyError) as error:
            named = isinstance(element, list) and len(element) > 1
            claim = claims.setdefault(str(row["element"][1]) if named else "", _Claim())
            claim.problems.append(Problem("bad_entry", f"entries[{index}]: {error}"))
            continue
        claim = claims.setdefault(cluster, _Claim())
        claim.entries.append(entry)
        claim.problems.extend(_entry_problems(cluster, index, entry, row, readable))
    return claims


def _entry_problems(
    cluster: str, index: int, entry: Entry, row: Json, readable: Json
) -> Iterable[Problem]:
    element, _, op, value = entry
    try:
        check_entry(cluster, element, op, value)
    except ProtocolError as error:
        yield Problem(error.code, f"entries[{index}]: {error.message}")
    different = sorted(key for key in readable if row.get(key) != readable[key])
    if different:
        message = f"entries[{index}]: {', '.join(different)} is not what its bytes say"
        yield Problem("readable_differs", message)


def _rebuilt(head: Head, claim: _Claim) -> tuple[OriginSet | None, list[Problem]]:
    """The origin's set made anew from its entries, and how it differs from the head."""
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
    key = x509.load_der_x509_certificate(record.chain[0]).public_key()
    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(head.signature, head.canonical())
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(head.signature, head.canonical(), ec.ECDSA(SHA256()))
        else:
            return Problem("unknown_key", "the certificate's key is neither Ed25519 nor ECDSA")
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
    said = readable_head(head)
    different = sorted(key for key in said if stated.readable.get(key) != said[key])
    if not different:
        return []
    message = f"{', '.join(different)} is not what the signed head says"
    return [Problem("readable_differs", message)]


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
    return Verdict(stated.cluster, stated.shard, entries, signature, tuple(problems)), found


def _item_key(item: Json) -> tuple[str, ...]:
    names = ("tag", "namespace", "service", "address", "ports")
    return tuple(repr(item.get(name)) for name in names)


def _items_problem(snapshot: Snapshot, items: list[Json]) -> Problem | None:
    stated = sorted(snapshot.items, key=_item_key)
    if stated == sorted(items, key=_item_key):
        return None
    message = f"items ({len(stated)}) are not what the entries make visible ({len(items)})"
    return Problem("readable_differs", message)


def verify(snapshot: Snapshot, verifier: Verifier | None) -> list[Verdict]:
    """Judge every origin of ``snapshot``, in the order of the file.

    Without ``verifier`` signatures are checked with the key that came along, which shows damage but
    not forgery.  Entries of a cluster that has no head, and a wrong list of items, come last.
    """
    claims = _claims(snapshot)
    verdicts, items, complete = [], [], True
    for stated in snapshot.origins:
        verdict, elements = _verdict(stated, claims.pop(stated.cluster, _Claim()), verifier)
        verdicts.append(verdict)
        complete = complete and elements is not None
        items.extend(visible_items(stated.cluster, elements) if elements is not None else [])
    for cluster, claim in sorted(claims.items()):
        problem = Problem("no_head", f"{len(claim.entries)} entries of an origin without a head")
        count = len(claim.entries)
        verdicts.append(Verdict(cluster, 0, count, "unread", (*claim.problems, problem)))
    wrong = _items_problem(snapshot, items) if complete else None
    if wrong is not None:
        verdicts.append(Verdict("", 0, len(snapshot.items), "unread", (wrong,)))
    return verdicts
