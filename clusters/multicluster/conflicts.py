"""In what the exports of one service disagree, told to the owners of all of them.

A conflict never changes what is served: it only says whose word counts.  Reasons are those of
mcs-api; a message names the value used, its cluster, and how many disagree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clusters.model import Port
from clusters.multicluster.offer import CLIENT_IP, Offer

_LONGEST_VALUE = 300


@dataclass(frozen=True, slots=True)
class Conflict:
    """One property on which exports disagree."""

    reason: str
    """As in the condition, e.g. ``PortConflict``."""
    message: str


class _Rule(NamedTuple):
    """One property that only the oldest decides."""

    reason: str
    property: str
    value: Callable[[Offer], object]
    shown: Callable[[Offer], object]
    compared: Callable[[Offer, Offer], bool]
    """Whether an offer and the oldest have the property both."""


def _always(_: Offer, __: Offer) -> bool:
    return True


def _both_by_client(offer: Offer, oldest: Offer) -> bool:
    """A timeout means something only with an affinity, whose absence is a conflict of its own."""
    return offer.affinity == oldest.affinity == CLIENT_IP


def _both_stated(offer: Offer, oldest: Offer) -> bool:
    return bool(offer.families and oldest.families)


_RULES = (
    _Rule("TypeConflict", "type", lambda o: o.type, lambda o: o.type, _always),
    _Rule(
        "SessionAffinityConflict",
        "sessionAffinity",
        lambda o: o.affinity,
        lambda o: o.affinity,
        _always,
    ),
    _Rule(
        "SessionAffinityConfigConflict",
        "sessionAffinityConfig.clientIP.timeoutSeconds",
        lambda o: o.affinity_seconds,
        lambda o: o.affinity_seconds,
        _both_by_client,
    ),
    _Rule(
        "LabelsConflict", "exportedLabels", lambda o: o.labels, lambda o: dict(o.labels), _always
    ),
    _Rule(
        "AnnotationsConflict",
        "exportedAnnotations",
        lambda o: o.annotations,
        lambda o: dict(o.annotations),
        _always,
    ),
    _Rule(
        "InternalTrafficPolicyConflict",
        "internalTrafficPolicy",
        lambda o: o.internal_policy,
        lambda o: o.internal_policy,
        _always,
    ),
    _Rule(
        "TrafficDistributionConflict",
        "trafficDistribution",
        lambda o: o.distribution,
        lambda o: o.distribution,
        _always,
    ),
    _Rule(
        "IPFamilyConflict",
        "ipFamilies",
        lambda o: frozenset(o.families),
        lambda o: list(o.families),
        _both_stated,
    ),
)


def conflicts_of(offers: Sequence[Offer], owners: Mapping[Port, str]) -> tuple[Conflict, ...]:
    """All conflicts among ``offers``, which come oldest first.

    ``owners`` are the ports of the merged service, each with the cluster whose word it is.
    """
    oldest = offers[0]
    found = [_port_conflict(offers, owners)]
    for rule in _RULES:
        against = sum(
            rule.compared(offer, oldest) and rule.value(offer) != rule.value(oldest)
            for offer in offers
        )
        used = f"{rule.property} {_text(rule.shown(oldest))} of {oldest.cluster} is used"
        found.append(_conflict(rule.reason, used, against, len(offers)))
    return tuple(conflict for conflict in found if conflict is not None)


def _port_conflict(offers: Sequence[Offer], owners: Mapping[Port, str]) -> Conflict | None:
    """Ports that are not the same everywhere, whether they collide or make a union."""
    against = sum(offer.ports != offers[0].ports for offer in offers)
    listed = ", ".join(f"{_port(port)} of {cluster}" for port, cluster in owners.items())
    shown = listed if len(listed) <= _LONGEST_VALUE else f"{listed[:_LONGEST_VALUE]}..."
    return _conflict("PortConflict", f"ports {shown} are used", against, len(offers))


def _port(port: Port) -> str:
    named = f"{port.name} " if port.name else ""
    application = f" ({port.app_protocol})" if port.app_protocol else ""
    return f"{named}{port.port}/{port.protocol}{application}"


def _conflict(reason: str, used: str, against: int, all_of_them: int) -> Conflict | None:
    if not against:
        return None
    return Conflict(reason, f"{used}, {against}/{all_of_them} clusters disagree")


def _text(value: object) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def reasons(conflicts: Iterable[Conflict]) -> str:
    """All reasons as one, as in the condition."""
    return ",".join(conflict.reason for conflict in conflicts)


def messages(conflicts: Iterable[Conflict]) -> str:
    """All messages as one."""
    return "; ".join(conflict.message for conflict in conflicts)
