"""From everything the objects of one service state to the set of its endpoints.

The set is the union over all slices (E1).  Where several claims are about one endpoint, one wins:

- claims about the **same** thing (equal targetRef uid): the one whose object has the later
  last-change-trigger-time; where one of them states no time, the one that arrived later (E2);
- claims about **different** things (a dying and a new pod share an address; without a uid every
  claim is a thing of its own): ready before not ready, then serving, then not terminating, then the
  later time, then a fixed order of the values.  Arrival plays no part there.

An Endpoints object counts only for a service without any slice (E9).  The result depends on the
claims and their arrival numbers alone, never on the order in which readings are given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from clusters.model import Endpoint, PortSet, Skipped
from clusters.readings import Claim, Reading, skipped_key


@dataclass(frozen=True, slots=True)
class _Statement:
    """A claim with what its object says of the time."""

    claim: Claim
    trigger: int | None
    arrival: int

    def preference(self) -> tuple[object, ...]:
        """What decides between different things; total, and independent of arrival."""
        endpoint = self.claim.endpoint
        return (
            endpoint.ready,
            endpoint.serving,
            not endpoint.terminating,
            -1 if self.trigger is None else self.trigger,
            *(
                text or ""
                for text in (
                    *(self.claim.uid, endpoint.hostname, endpoint.zone),
                    *(endpoint.node, endpoint.pod),
                )
            ),
        )

    def timed(self) -> tuple[object, ...]:
        """What decides between statements about one thing that all have a trigger time."""
        return (self.trigger, self.arrival, *self.preference())

    def arrived(self) -> tuple[object, ...]:
        """What decides between statements about one thing when times are missing."""
        return (self.arrival, *self.preference())


def _latest(statements: list[_Statement]) -> _Statement:
    """The newest statement about one thing."""
    with_time = [item for item in statements if item.trigger is not None]
    rivals = [item for item in statements if item.trigger is None]
    if with_time:
        rivals.append(max(with_time, key=_Statement.timed))
    return max(rivals, key=_Statement.arrived)


def _winner(statements: list[_Statement]) -> Endpoint:
    things: dict[str | int, list[_Statement]] = {}
    for number, statement in enumerate(statements):
        thing = number if statement.claim.uid is None else statement.claim.uid
        things.setdefault(thing, []).append(statement)
    newest = (_latest(group) for group in things.values())
    return max(newest, key=_Statement.preference).claim.endpoint


def combine(
    slices: Iterable[Reading], endpoints: Reading | None
) -> tuple[tuple[Endpoint, ...], tuple[Skipped, ...]]:
    """The service's endpoints in canonical order, and what was left out.

    ``slices`` are the readings of all its local slices, ``endpoints`` that of its Endpoints object.
    """
    readings = list(slices)
    if not readings and endpoints is not None:
        readings = [endpoints]
    single: dict[tuple[str, PortSet], tuple[Claim, Reading]] = {}
    contested: dict[tuple[str, PortSet], list[_Statement]] = {}
    for reading in readings:
        for claim in reading.claims:
            identity = claim.endpoint.identity
            first = single.setdefault(identity, (claim, reading))
            if first[0] is claim:
                continue
            rivals = contested.setdefault(identity, [_stated(*first)])
            rivals.append(_stated(claim, reading))
    chosen = [
        (claim.order, _winner(contested[identity]) if identity in contested else claim.endpoint)
        for identity, (claim, _) in single.items()
    ]
    chosen.sort(key=lambda row: row[0])
    skipped = {item for reading in readings for item in reading.skipped}
    return tuple(row[1] for row in chosen), tuple(sorted(skipped, key=skipped_key))


def _stated(claim: Claim, reading: Reading) -> _Statement:
    return _Statement(claim, reading.trigger, reading.arrival)
