"""Snapshot documents for tests: three clusters with real certificates, signed as an agent signs."""

from __future__ import annotations

import copy
import json
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from clusters.model import Endpoint, ExportedService, LocalService, Port, ServiceKey
from crdt import Entry, Head, Origin, OriginSet, Version, pack
from crdt.entries import ADD, NIL, REMOVE
from replicator import codec
from replicator.element_sets import parse_json
from replicator.messages import Record
from replicator.pki import Authority, Issued
from replicator.projection import ClusterInfo, Projector, cluster_element, endpoint_element
from replicator.signing import CertificateSigner, TrustStore, der
from replicator.snapshots import OriginSnapshot, build
from tests.support.certificates import CLUSTERSET, authority, pair

Json = dict[str, Any]
CART = ServiceKey("shop", "cart")
PAY = ServiceKey("shop", "pay")
STAMP = 1_764_655_200_000_000_000
TAKEN_AT = 1_764_655_201_234_567_890
HTTP = (Port("http", 8080),)
GONE = Endpoint("10.20.1.9", HTTP)


def service(key: ServiceKey, *endpoints: Endpoint, **properties: object) -> LocalService:
    """An exported service."""
    export = ExportedService("2025-12-02T06:00:00Z", tuple(sorted(properties.items())))
    return LocalService(key, endpoints, export)


def stamped(statements: Iterable[tuple[bytes, int, bytes]]) -> list[Entry]:
    """Entries of (element, op, value) with stamps that count up from :data:`STAMP`."""
    rows = enumerate(statements, STAMP)
    return [(element, stamp, op, value) for stamp, (element, op, value) in rows]


def fjord_entries() -> list[Entry]:
    """One of everything a snapshot can hold."""
    endpoints = (
        Endpoint("10.20.1.4", HTTP, zone="fjord-a", node="worker-1", pod="cart-7d9f"),
        Endpoint("10.20.1.10", None, ready=False, serving=True, terminating=True),
        Endpoint("fd00::4", (Port("", None, "UDP", "quic"),), hostname="cart-0"),
        Endpoint("127.0.0.1", HTTP),
    )
    live = Projector("fjord").elements_of(service(CART, *endpoints, type="ClusterSetIP", ports=[1]))
    hidden = endpoint_element("fjord", PAY, Endpoint("10.20.1.5", HTTP))
    statements = [
        (*_itself("fjord"),),
        *((element, ADD, value) for element, value in live.items()),
        (hidden, ADD, pack([7, None, None, None, None])),
        (endpoint_element("fjord", CART, GONE), REMOVE, NIL),
        (pack([200, "fjord", b"\x00\xff", 7]), ADD, pack({"a": [1.5, True, b"\x01"], "b": None})),
        (pack([77, "fjord", "odd"]), ADD, pack([float("nan"), float("inf"), 2.0, 2**64 - 1])),
    ]
    return stamped(statements)


def _itself(cluster: str) -> tuple[bytes, int, bytes]:
    element, value = cluster_element(cluster, ClusterInfo("eu-north-1", f"uid-{cluster}", "0.1.0"))
    return element, ADD, value


def mesa_entries() -> list[Entry]:
    """One service of one endpoint."""
    live = Projector("mesa").elements_of(service(CART, Endpoint("10.40.0.1", HTTP)))
    return stamped([_itself("mesa"), *((element, ADD, value) for element, value in live.items())])


def signed(
    issued: Issued,
    cluster: str,
    entries: Sequence[Entry],
    *,
    chain: Sequence[x509.Certificate] = (),
    floor: int = 0,
    shard: int = 0,
) -> OriginSnapshot:
    """What ``cluster`` committed, its head signed with the key of ``issued``."""
    signer = CertificateSigner(issued.key, [der(item) for item in (issued.certificate, *chain)])
    last = max((entry[1] for entry in entries), default=STAMP)
    elements = OriginSet.restored(Version(1, last), floor, entries)
    now = time.time_ns()
    head = Head(
        origin=Origin(cluster, shard),
        epoch=1,
        base=None,
        stamp=last,
        floor=floor,
        count=len(elements),
        root=elements.root(),
        issued_at=now,
        observed_at=now,
        key_id=signer.key_id,
    )
    return OriginSnapshot(
        head.signed(signer.sign(head.canonical())),
        Record(head.origin, signer.key_id, signer.chain),
        entries,
    )


def signed_again(issued: Issued, state: OriginSnapshot, head: Head) -> OriginSnapshot:
    """The same entries under ``head``, signed for."""
    signer = CertificateSigner(issued.key, state.record.chain)
    fresh = head.signed(signer.sign(head.canonical()))
    return OriginSnapshot(fresh, state.record, state.entries)


@dataclass(slots=True)
class Bed:
    """An authority, three clusters of it, and what each of them committed."""

    authority: Authority = field(default_factory=authority)
    pairs: dict[str, Issued] = field(default_factory=dict)
    states: dict[str, OriginSnapshot] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for cluster in ("fjord", "mesa", "tundra"):
            self.pairs[cluster] = pair(self.authority, cluster)
        self.states["fjord"] = signed(self.pairs["fjord"], "fjord", fjord_entries(), floor=STAMP)
        self.states["mesa"] = signed(self.pairs["mesa"], "mesa", mesa_entries())
        self.states["tundra"] = signed(self.pairs["tundra"], "tundra", [])

    def document(self, **states: OriginSnapshot) -> Json:
        """The document as read from a file, with ``states`` in the place of those of their name."""
        origins = (self.states | states).values()
        return reread(
            build(clusterset=CLUSTERSET, cluster="mesa", taken_at=TAKEN_AT, origins=origins)
        )

    def restated(self, cluster: str, entries: Sequence[Entry]) -> Json:
        """The document when ``cluster`` itself signed for ``entries``."""
        return self.document(**{cluster: signed(self.pairs[cluster], cluster, entries)})

    def trust(self, clusterset: str = CLUSTERSET) -> TrustStore:
        """The authority as the only root."""
        return TrustStore([self.authority.certificate], clusterset)

    def bundle(self) -> bytes:
        """The root as PEM."""
        return self.authority.certificate.public_bytes(Encoding.PEM)


def reread(document: Json) -> Json:
    """The document after a way through a file."""
    copied: Json = parse_json(json.dumps(document, allow_nan=False), "the file")
    return copied


def origin(document: Json, cluster: str) -> Json:
    """The row of one origin, to be changed."""
    return next(row for row in document["origins"] if row["cluster"] == cluster)


def entries_of(document: Json, cluster: str) -> list[Json]:
    """The rows of one cluster's entries, to be changed."""
    return [row for row in document["entries"] if row["element"][1] == cluster]


def with_head(document: Json, cluster: str, head: bytes) -> Json:
    """A copy whose head of ``cluster`` is these bytes."""
    other = copy.deepcopy(document)
    origin(other, cluster)["head"] = b64encode(head).decode()
    return other


def head_of(document: Json, cluster: str) -> Head:
    """The head in a document."""
    return codec.decode_head(b64decode(origin(document, cluster)["head"]))
