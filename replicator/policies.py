"""What operators decided about traffic, and which decision counts: drain, weight, stale policy.

A decision is one cell, the element ``[POLICY, author, what, cluster, namespace, service]``, so each
cell has one writer; which one counts is found out when read: the one with the larger order, then
the larger name of who decided.  As with members, every replica states what counts for it, unchanged
(``by`` names who decided), so a decision outlives the origin it was first written in, and one that
was overruled never comes back with it.

Cells of newer versions take part as they are: whatever they are about, and whatever they say, is
kept, relayed, stated again and counted, and not acted on.

Pure values; writing and telling are :mod:`replicator.steering`'s, the effect on what is written
:mod:`replicator.traffic`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from clusters.model import ServiceKey
from clusters.slice_names import is_dns_name
from crdt import pack
from replicator.errors import InputError
from replicator.identity import is_label
from replicator.kinds import POLICY, unpack

DRAIN, WEIGHT, STALE = "drain", "weight", "stale"
UNDRAINED, DRAINED, DRAINED_LAST = "undrained", "drained", "drained-last"
"""What a drain says; the last drains the last ready endpoints of a service too."""
FULL_WEIGHT = 100
AS_CONFIGURED = "as-configured"
"""The stale policy that says: the one in each agent's configuration."""
STALE_POLICIES = ("keep", "not-ready", "withdraw", AS_CONFIGURED)
MOST_ORDER = 1 << 62
MOST_BYTES = 1024
"""Larger cells are stored and relayed in their origin only."""

Setting = str | int
"""What is decided: a text of drain or stale, or the percentage of a weight."""


class Subject(NamedTuple):
    """What a decision is about; "" stands for every cluster, or every service."""

    what: str
    cluster: str = ""
    namespace: str = ""
    service: str = ""

    @property
    def key(self) -> ServiceKey | None:
        """The service, None for all of them."""
        return ServiceKey(self.namespace, self.service) if self.service else None


class Cell(NamedTuple):
    """One decision; of two the greater counts, field by field."""

    order: int
    by: str
    """The cluster whose operator decided."""
    value: bytes
    """The whole value as it was first written."""


Table = dict[bytes, Cell]
"""What each cell is about (canonical bytes of the rest of its key) to the one that counts."""


# ---- bytes -------------------------------------------------------------------------------------


def is_policy(element: bytes) -> bool:
    """Whether an element is a policy cell."""
    return 0x92 < element[0] <= 0x9F and element[1] == POLICY  # noqa: PLR2004 - a list of 3 to 15


def topic_of(element: bytes) -> bytes:
    """What a policy cell is about, whoever states it."""
    return pack(unpack(element)[2:])


def element_of(author: str, topic: bytes) -> bytes:
    """The element in which ``author`` states what counts about ``topic``."""
    return pack([POLICY, author, *unpack(topic)])


def cell_of(element: bytes, value: bytes) -> Cell | None:
    """The decision a policy cell states, None when it cannot be told whether it counts."""
    fields = unpack(value)
    if len(element) + len(value) > MOST_BYTES or not isinstance(fields, list) or len(fields) < 3:  # noqa: PLR2004
        return None
    order, by = fields[:2]
    if not _is_integer(order, MOST_ORDER) or not isinstance(by, str) or not is_label(by):
        return None
    return Cell(order, by, value)


def _is_integer(value: object, most: int) -> bool:
    return type(value) is int and 0 <= value <= most


def topic_about(subject: Subject) -> bytes:
    """The topic of cells about ``subject``."""
    return pack(list(subject))


def subject_of(topic: bytes) -> Subject | None:
    """What a topic is about, None for one that this version does not know."""
    fields = unpack(topic)
    if len(fields) != len(Subject._fields) or not all(isinstance(text, str) for text in fields):
        return None
    subject = Subject(*fields)
    named = subject.cluster == "" if subject.what == STALE else is_label(subject.cluster)
    whole = bool(subject.namespace) == bool(subject.service)
    return subject if subject.what in (DRAIN, WEIGHT, STALE) and named and whole else None


def described(subject: Subject) -> dict[str, Any]:
    """A subject in JSON: ``policy``, ``cluster`` and ``service``, None for all of them."""
    service = None if subject.key is None else str(subject.key)
    return {"policy": subject.what, "cluster": subject.cluster or None, "service": service}


def known_settings(what: str) -> tuple[str, ...]:
    """The texts that a policy may be set to; none for a weight, which is a number."""
    settings = {DRAIN: (UNDRAINED, DRAINED, DRAINED_LAST), STALE: STALE_POLICIES}
    return settings.get(what, ())


def setting_of(subject: Subject, cell: Cell) -> Setting | None:
    """What a decision sets, None for what this version does not know."""
    value: Any = unpack(cell.value)[2]
    if subject.what == WEIGHT:
        return value if _is_integer(value, FULL_WEIGHT) else None
    return value if isinstance(value, str) and value in known_settings(subject.what) else None


def wanted(
    what: object, cluster: object, service: object, setting: object
) -> tuple[Subject, Setting]:
    """What somebody asks to be decided; None is every cluster (stale policies only) or service.

    Raises :class:`InputError` naming what is wrong.
    """
    if what not in (DRAIN, WEIGHT, STALE):
        message = f"{str(what)[:40]!r} is no policy"
        raise InputError(message, cure=f"choose {DRAIN}, {WEIGHT} or {STALE}")
    namespace, name = _service_of(service)
    subject = Subject(str(what), "" if cluster is None else str(cluster), namespace, name)
    if what == STALE and cluster is not None:
        raise InputError("a stale policy is about services", cure="leave the cluster out")
    if what != STALE and not (isinstance(cluster, str) and is_label(cluster)):
        message = f"{str(cluster)[:80]!r} is not a cluster id"
        raise InputError(message, cure="give a DNS label")
    known = known_settings(subject.what)
    if not (isinstance(setting, str) and setting in known) and not (
        what == WEIGHT and _is_integer(setting, FULL_WEIGHT)
    ):
        message = f"{str(setting)[:40]!r} is no setting of {what}"
        cure = f"choose {', '.join(known)}" if known else f"give 0 to {FULL_WEIGHT} percent"
        raise InputError(message, cure=cure)
    return subject, setting  # type: ignore[return-value]


def _service_of(service: object) -> tuple[str, str]:
    if service is None:
        return "", ""
    namespace, _, name = str(service).partition("/")
    if not isinstance(service, str) or not is_label(namespace) or not is_dns_name(name):
        message = f"{str(service)[:80]!r} is not NAMESPACE/SERVICE"
        raise InputError(message, cure="write for example shop/cart")
    return namespace, name


# ---- what counts -------------------------------------------------------------------------------


def merged(tables: Iterable[Mapping[bytes, Cell]]) -> Table:
    """For each topic the cell that counts among all in ``tables``."""
    result: Table = {}
    for table in tables:
        for topic, cell in table.items():
            known = result.get(topic)
            if known is None or known < cell:
                result[topic] = cell
    return result


def decided(setting: Setting, by: str, known: Cell | None) -> Cell:
    """A decision that outdoes ``known``."""
    order = 1 if known is None else min(known.order + 1, MOST_ORDER)
    return Cell(order, by, pack([order, by, setting]))


class Traffic(NamedTuple):
    """What is decided about the endpoints of one service in one cluster."""

    drained: bool = False
    last: bool = False
    """Whether they are drained even where no other ready endpoint is left."""
    weight: int = FULL_WEIGHT


UNTOUCHED = Traffic()


class Rules:
    """What a table says, as far as this version knows it."""

    def __init__(self, table: Mapping[bytes, Cell]) -> None:
        """Read ``table`` once."""
        self.settings: dict[Subject, Setting] = {}
        self.cells: dict[Subject, Cell] = {}
        """Where each setting stands."""
        self.unknown = 0
        """Decisions that count and are not known here."""
        for topic, cell in table.items():
            subject = subject_of(topic)
            setting = None if subject is None else setting_of(subject, cell)
            if subject is None or setting is None:
                self.unknown += 1
            else:
                self.settings[subject] = setting
                self.cells[subject] = cell
        stale = {str(s) for subject, s in self.settings.items() if subject.what == STALE}
        self.stale_policies = frozenset(stale - {AS_CONFIGURED})
        """Stale policies that hold for any service."""

    def in_force(self, subject: Subject) -> bool:
        """Whether something is decided that is not what holds without a decision."""
        return self.settings.get(subject) not in (None, UNDRAINED, AS_CONFIGURED) and not (
            subject.service == "" and self.settings[subject] == FULL_WEIGHT
        )

    def traffic(self, cluster: str, key: ServiceKey) -> Traffic:
        """What is decided about ``cluster``'s endpoints of a service.

        Drained is what is drained as a whole or as a service; the weight of the service goes before
        that of the cluster.
        """
        if not self.settings:
            return UNTOUCHED
        get = self.settings.get
        one = (cluster, key.namespace, key.name)
        drains = (get(Subject(DRAIN, cluster)), get(Subject(DRAIN, *one)))
        weight = get(Subject(WEIGHT, *one), get(Subject(WEIGHT, cluster), FULL_WEIGHT))
        last = DRAINED_LAST in drains
        return Traffic(last or DRAINED in drains, last, int(weight))

    def stale_policy(self, key: ServiceKey) -> str | None:
        """The stale policy of a service, None for the configured one."""
        whole = self.settings.get(Subject(STALE))
        found = self.settings.get(Subject(STALE, "", key.namespace, key.name), whole)
        return None if found in (None, AS_CONFIGURED) else str(found)
