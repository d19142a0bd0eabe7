"""Heads that contradict what we hold: our own origin ahead of us, or two states at one version.

Two writers of one origin (a copied disk, say) may end on the same version with different states;
so the owner asks not only when it is behind, but also when a peer shows another state of a version
it stands at itself, or one of its epoch from before it began that: whoever has lost its disk and
met nobody begins with a low number, which a former writer may have used.  Its higher epoch then
ends the matter: else the peers might keep the other's, or take what a writer that lives on writes.

An advert proves nothing, anybody can write one.  So the signed head behind it is asked for (an
*enquiry*: a Want from that very version, answered by a transfer without entries), and only what
verifies has an effect: a higher epoch of our own (rules C10, C12), or the larger state by snapshot
(:meth:`crdt.Head.outdoes`), so that all replicas of an equivocating origin end on the same state.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from crdt import Head, Origin, Version
from replicator import messages as m
from replicator.codec import ROOT_MARK_SIZE, encode_head
from replicator.effects import Claim, Effect, Notice, Wake
from replicator.errors import ProtocolError
from replicator.own_origin import OwnOrigin
from replicator.remote_origin import RemoteOrigin
from replicator.session import Session
from replicator.signing import Verifier
from replicator.subscriptions import Subscriptions


def _differs(advert: m.Advert, head: Head) -> bool:
    """Whether an advert of a head's version tells of another state."""
    return (advert.mark, advert.floor) != (head.root[:ROOT_MARK_SIZE], head.floor)


def equivocation_problems(remotes: Mapping[Origin, RemoteOrigin]) -> list[dict[str, str]]:
    """What a person should look at: who signed two states, with both heads as evidence."""
    found = []
    for origin, remote in sorted(remotes.items()):
        if remote.evidence is None:
            continue
        held, met = remote.evidence
        message = (
            f"{origin.cluster} signed two states at version {held.epoch}:{held.stamp}, "
            f"met {remote.equivocations} times since this agent started"
        )
        cure = f"see that {origin.cluster} has one writer: its key or its state folder was copied"
        heads = {"held": encode_head(held).hex(), "met": encode_head(met).hex()}
        found.append({"code": "equivocation", "message": message, "cure": cure, **heads})
    return found


class Conflicts:
    """Notices, asks and decides; the state is the replica's."""

    def __init__(
        self, own: OwnOrigin, remotes: dict[Origin, RemoteOrigin], subscriptions: Subscriptions
    ) -> None:
        """Decide over the replica's own parts."""
        self._own = own
        self._remotes = remotes
        self._subscriptions = subscriptions

    def _holds(self, version: Version) -> Head | None:
        """Our own head at ``version``: the last one, or the one before while that is sealed."""
        heads = (self._own.head, self._own.published_head)
        return next((head for head in heads if head is not None and head.version == version), None)

    def _lacks(self, version: Version) -> bool:
        """Whether a head of our own origin at ``version`` is one we should hold and do not.

        Of our epoch that is also one from before we began it: then its number was used twice.
        """
        ahead = version > self._own.elements.version or version < self._own.begun
        return ahead and version.epoch >= self._own.epoch

    def _claims(self, advert: m.Advert) -> bool:
        """Whether ``advert`` tells of a state of our own origin that we should hold and do not."""
        head = self._holds(advert.version)
        if head is None:
            return self._lacks(advert.version)
        return head.epoch >= self._own.epoch and _differs(advert, head)

    def advertised(self, session: Session, advert: m.Advert) -> list[Effect]:
        """Enquire if ``advert`` contradicts what is held."""
        if advert.origin == self._own.origin and self._own.leading:
            doubtful = self._claims(advert)
        else:
            remote = self._remotes[advert.origin]
            head = remote.head
            doubtful = (
                head is not None
                and remote.source != session.number
                and advert.version == head.version
                and _differs(advert, head)
            )
        if not doubtful:
            return []
        session.enquiries.add(advert.origin)
        session.say(m.Want(advert.origin, advert.version))
        return [Wake(session.number)]

    def answered(
        self, session: Session, head: Head, verifier: Verifier, now: float
    ) -> list[Effect]:
        """The head an enquiry asked for."""
        session.enquiries.discard(head.origin)
        session.say(m.Stop(head.origin))
        record = session.records.get(head.origin)
        fields: dict[str, object] = {"origin": head.origin.cluster, "source": session.cluster}
        code = "unknown_key" if record is None else None
        try:
            if record is not None:
                verifier.verify(head, record)
        except ProtocolError as error:
            code = error.code
        effects: list[Effect] = [Wake(session.number)]
        if code is not None:
            effects.append(Notice("head_refused", fields | {"code": code}, serious=True))
        elif head.origin == self._own.origin and self._own.leading:
            effects += self._met_own(head, fields, now)
        else:
            effects += self._met_other(session, head, fields, now)
        return effects

    def _met_own(self, head: Head, fields: dict[str, object], now: float) -> list[Effect]:
        held = self._holds(head.version)
        if held is None:
            lacking = self._lacks(head.version)
        else:
            lacking = held.epoch >= self._own.epoch and not held.same_state(head)
        if not lacking:
            return []
        if self._own.leads_until < inf:
            # The lease knows which of the two may write: renewed above that epoch, or lost.
            notice = Notice("second_writer", fields | {"by_epoch": head.epoch}, serious=True)
            return [notice, Claim(head.epoch)]
        self._own.open_epoch(head.epoch)
        self._own.rivals.met(now)
        return [Notice("own_origin_ahead", fields | {"epoch": self._own.epoch}, serious=True)]

    def _met_other(
        self, session: Session, head: Head, fields: dict[str, object], now: float
    ) -> list[Effect]:
        remote = self._remotes[head.origin]
        held = remote.head
        if held is None or held.version != head.version or held.same_state(head):
            return []
        remote.contradicted(held, head)
        evidence = {"held": encode_head(held).hex(), "met": encode_head(head).hex()}
        notice = Notice("equivocation", fields | evidence, serious=True)
        if not head.outdoes(held):
            return [notice]
        remote.distrust = True
        return [notice, *self._subscriptions.take_from(remote, session.number, now)]
