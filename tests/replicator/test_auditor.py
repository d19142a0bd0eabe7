"""Which origin is audited when."""

from __future__ import annotations

from crdt import Head, Origin, OriginSet, StampClock, Version, pack
from crdt.entries import stored_of
from replicator.auditor import AUDIT_SECONDS, Auditor
from replicator.messages import Record
from replicator.own_origin import OwnOrigin
from replicator.remote_origin import RemoteOrigin
from tests.support.signers import FakeSigner

ELEMENT = pack([3, "somebody"])
FJORD, KELP, MESA, ZINC = (Origin(name) for name in ("fjord", "kelp", "mesa", "zinc"))


def remote_of(origin: Origin) -> RemoteOrigin:
    """An origin with one element."""
    elements = OriginSet.restored(Version(1, 5), 0, [(ELEMENT, 5, 0, b"\x90")])
    head = Head(origin, 1, None, 5, 0, 1, elements.root(), 5, 5, b"key")
    remote = RemoteOrigin(origin)
    assert remote.restore(elements, head, Record(origin, b"key", (b"leaf",)))
    return remote


class Bed:
    """An auditor of fjord's, and what it looked at."""

    def __init__(self) -> None:
        signer = FakeSigner("fjord")
        self.own = OwnOrigin(FJORD, signer, epoch=1, clock=StampClock(), elements=OriginSet())
        self.own.seal(1)
        self.remotes = {origin: remote_of(origin) for origin in (KELP, MESA)}
        self.auditor = Auditor(self.own, self.remotes)
        self.now = 0.0

    def run(self, seconds: float) -> list[Origin]:
        """Tick ten times a second; the origins that failed."""
        found = []
        for _ in range(round(10 * seconds)):
            failed = self.auditor.tick(self.now)
            found += [] if failed is None else [failed]
            self.now += 0.1
        return found

    def rot(self, origin: Origin) -> None:
        """The one element changes."""
        self.remotes[origin].elements._entries[ELEMENT] = stored_of(5, 0, b"\x91\x01")


def test_one_origin_a_minute_in_turn() -> None:
    bed = Bed()
    assert bed.run(AUDIT_SECONDS - 1) == []
    assert bed.auditor.done == 0
    assert bed.run(5) == []
    assert bed.auditor.done == 1
    bed.rot(KELP)
    assert bed.run(AUDIT_SECONDS) == [KELP]
    bed.rot(MESA)
    assert bed.run(AUDIT_SECONDS) == [MESA]
    assert (bed.auditor.done, bed.auditor.failures) == (3, 2)
    assert bed.run(AUDIT_SECONDS) == []
    assert bed.run(AUDIT_SECONDS) == [KELP]


def test_a_suspect_is_looked_at_soon_and_delays_nobody() -> None:
    bed = Bed()
    bed.run(1)
    bed.rot(MESA)
    assert not bed.auditor.at_work
    bed.auditor.suspect(MESA)
    bed.auditor.suspect(KELP)
    assert bed.auditor.at_work
    assert bed.run(5) == [MESA]
    assert not bed.auditor.at_work
    assert bed.auditor.done == 2
    bed.rot(KELP)
    found = []
    for _ in range(round(4 * AUDIT_SECONDS)):
        bed.auditor.suspect(ZINC)
        bed.auditor.suspect(MESA)
        found += bed.run(1)
    assert found.count(KELP) == 1


def test_what_is_gone_or_another_state_by_now_is_not_judged() -> None:
    bed = Bed()
    bed.run(1)
    for change in ("gone", "replaced"):
        bed.rot(MESA)
        bed.auditor.suspect(MESA)
        assert bed.auditor.tick(bed.now) is None
        former = bed.remotes.pop(MESA)
        if change == "replaced":
            bed.remotes[MESA] = remote_of(MESA)
        assert bed.run(3) == []
        bed.remotes[MESA] = remote_of(MESA)
        assert former.elements is not bed.remotes[MESA].elements
    assert bed.auditor.done == 0


def test_what_is_being_mended_or_has_no_head_is_passed_over() -> None:
    bed = Bed()
    bed.remotes[ZINC] = RemoteOrigin(ZINC)
    bed.rot(MESA)
    bed.remotes[MESA].rotten = True
    bed.own.leading = False
    bed.run(1)
    for origin in (ZINC, MESA, FJORD):
        bed.auditor.suspect(origin)
        assert bed.run(3) == []
    assert bed.auditor.done == 0


def test_a_digest_that_is_not_its_heads_is_found_where_all_else_agrees() -> None:
    bed = Bed()
    remote = bed.remotes[MESA]
    remote.elements = OriginSet.restored(Version(1, 5), 0, [(ELEMENT, 5, 0, b"\x91\x01")])
    bed.run(1)
    bed.auditor.suspect(MESA)
    assert bed.run(3) == [MESA]
