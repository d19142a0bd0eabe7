"""What two agents say to each other; frozen values without behaviour.

Field order is wire order.  Times are Unix nanoseconds of the sender's wall clock.  Bytes and limits
are the codec's matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from crdt import Entry, Head, Origin, Version


@dataclass(frozen=True, slots=True)
class Hello:
    """First message of each side; anything before it is a protocol error."""

    minor: int
    """Minor protocol version: fields and messages it does not know are ignored by the other."""
    clusterset: str
    cluster: str
    instance: str
    """Random per process, so two agents of one cluster can be told apart."""
    role: str
    """``writer`` or ``standby``."""
    epoch: int
    uid: str
    """Identity of the cluster itself (kube-system's uid)."""
    software: str
    frame_limit: int
    packed: bool = False
    """Whether the sender takes transfers in their packed form."""
    buckets: bool = False
    """Whether the sender answers :class:`GetBuckets` and :class:`GetBucketEntries`."""


@dataclass(frozen=True, slots=True)
class Record:
    """An origin's certificate chain (DER, leaf first), by which its heads are verified."""

    origin: Origin
    key_id: bytes
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """How far all have come who take an origin through the sender, itself included."""

    version: Version
    """The least of theirs."""
    clusters: int
    """How many they are."""


@dataclass(frozen=True, slots=True)
class Advert:
    """How far the sender has committed one origin."""

    origin: Origin
    version: Version
    floor: int
    mark: bytes
    """First bytes of the root there: two marks at one version are two signed states."""
    reach: Reach | None = None
    """Told to whom the origin is taken from, by who passes it on."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Announcement and acknowledgement in one: what changed since the last Heads."""

    adverts: tuple[Advert, ...]


@dataclass(frozen=True, slots=True)
class Want:
    """Send me this origin from ``version`` on, until Stop.

    ``snapshot`` asks for the whole state even where a delta would do (after a root mismatch).
    """

    origin: Origin
    version: Version
    snapshot: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """Send me no more of this origin."""

    origin: Origin


@dataclass(frozen=True, slots=True)
class Transfer:
    """A chunk covering (``start``, ``to``] of an origin in stamp order.

    With ``head`` it is the last one of its transfer: ``to`` is the head's stamp and the receiver
    may commit.  ``snapshot`` chunks replace the receiver's state, others continue from it.
    """

    origin: Origin
    epoch: int
    snapshot: bool
    start: int
    to: int
    entries: tuple[Entry, ...]
    head: Head | None


@dataclass(frozen=True, slots=True)
class GetBuckets:
    """Tell me how your state of this origin is made up: mine is not what its head says."""

    origin: Origin
    depth: int


@dataclass(frozen=True, slots=True)
class Buckets:
    """The digest of the sender's state at ``head``, cut at ``depth`` (see :mod:`crdt.buckets`).

    It is believed when it hashes up to the root of a head that verifies.
    """

    head: Head
    depth: int
    nodes: bytes


@dataclass(frozen=True, slots=True)
class GetBucketEntries:
    """Send me what lies in the buckets ``indexes``; then go on as if I had wanted ``version``."""

    origin: Origin
    version: Version
    """That of the head whose buckets were told."""
    indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BucketEntries:
    """A chunk covering (``start``, ``to``] of the buckets asked for, in stamp order.

    After the ``last`` one a delta from the version asked for follows.
    """

    origin: Origin
    epoch: int
    start: int
    to: int
    entries: tuple[Entry, ...]
    last: bool


@dataclass(frozen=True, slots=True)
class Beat:
    """Heartbeat: four timestamps over two beats give round trip and clock offset.

    ``echo_sent`` and ``echo_received`` are the other side's last ``sent_at`` and our wall clock
    when it arrived (0, 0 before the first).  Equal ``digest`` on both sides proves convergence.
    """

    sent_at: int
    echo_sent: int
    echo_received: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Skew:
    """``author`` holds heads of ``origin`` back: their stamps are from the future.

    ``offset_ns`` is by how much, 0 when they are taken again.  Passed on once; unsigned.
    """

    origin: Origin
    author: str
    offset_ns: int


@dataclass(frozen=True, slots=True)
class Admission:
    """The decision by which the receiver's cluster is admitted, as it counts for the sender.

    Told directly, since the receiver may not take the origin that states it; unsigned.
    """

    order: int
    minimum: int
    by: str


@dataclass(frozen=True, slots=True)
class Reject:
    """Why the sender closes the connection."""

    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A message of a newer minor version; counted and ignored."""

    kind: int


Bucketing = GetBuckets | Buckets | GetBucketEntries | BucketEntries
"""What repair by buckets says."""
Message = (
    Hello
    | Record
    | Heads
    | Want
    | Stop
    | Transfer
    | Beat
    | Reject
    | Skew
    | Admission
    | Bucketing
    | Unknown
)
