"""What a session is sent next, and how much of it."""

from __future__ import annotations

import msgpack

from crdt import ZERO, Entry, Head, Origin, OriginSet, Version, pack
from replicator import messages as m
from replicator.codec import LIST_LIMIT, decode
from replicator.cursor import Cursor
from replicator.outflow import CHUNK_BYTES, PULL_BYTES, Outflow, Served
from replicator.session import Session

FJORD, MESA, TUNDRA = Origin("fjord"), Origin("mesa"), Origin("tundra")


def served(origin: Origin, count: int, size: int = 60, *, first: int = 1) -> Served:
    """An origin with so many entries of about so many bytes."""
    elements = OriginSet()
    entries: list[Entry] = [
        (pack([99, origin.cluster, n]), n, 0, bytes(msgpack.packb("x" * size)))
        for n in range(first, first + count)
    ]
    stamp = first + count - 1
    elements.advance(entries, version=Version(1, stamp), floor=0)
    root = elements.root()
    head = Head(origin, 1, None, stamp, 0, len(elements), root, stamp, 0, b"key", b"s")
    return Served(elements.since, head, m.Record(origin, b"key", (b"leaf",)))


def session(**wants: Version) -> Session:
    """A peer that wants origins from a version on."""
    link = Session(1, "peer", dialled=True, now=0.0)
    for cluster, version in wants.items():
        link.cursors[Origin(cluster)] = Cursor(version)
        link.ready[Origin(cluster)] = None
    return link


def pulled(outflow: Outflow, link: Session, *states: Served) -> list[m.Message]:
    """One pull."""
    by_origin = {state.head.origin: state for state in states}
    return [decode(frame) for frame in outflow.pull(link, by_origin.get)]


def all_pulled(outflow: Outflow, link: Session, *states: Served) -> list[list[m.Message]]:
    """Pulls until nothing is left."""
    rounds = []
    while messages := pulled(outflow, link, *states):
        rounds.append(messages)
    return rounds


def transfers(messages: list[m.Message]) -> list[m.Transfer]:
    """The transfers among messages."""
    return [message for message in messages if isinstance(message, m.Transfer)]


def test_what_a_peer_wants_is_sent_once_with_its_record_before_the_head() -> None:
    state, link, outflow = served(FJORD, 3), session(fjord=ZERO), Outflow()
    record, chunk = pulled(outflow, link, state)
    assert record == state.record
    assert isinstance(chunk, m.Transfer)
    assert (chunk.snapshot, chunk.start, chunk.to, chunk.head) == (True, 0, 3, state.head)
    assert list(chunk.entries) == state.since(0, 1 << 20).entries
    assert pulled(outflow, link, state) == []
    assert link.ready == {}


def test_a_record_is_sent_once_for_each_want() -> None:
    state, link, outflow = served(FJORD, 3), session(fjord=ZERO), Outflow()
    pulled(outflow, link, state)
    later = served(FJORD, 2, first=4)
    link.ready[FJORD] = None
    assert [type(x) for x in pulled(outflow, link, later)] == [m.Transfer]
    link.cursors[FJORD] = Cursor(ZERO)
    link.records_sent.pop(FJORD)
    link.ready[FJORD] = None
    assert [type(x) for x in pulled(outflow, link, later)] == [m.Record, m.Transfer]


def test_control_messages_go_first() -> None:
    state, link, outflow = served(FJORD, 3), session(fjord=ZERO), Outflow()
    link.say(m.Stop(MESA))
    assert pulled(outflow, link, state)[0] == m.Stop(MESA)


def test_a_closing_session_is_sent_its_last_words_only() -> None:
    state, link, outflow = served(FJORD, 3), session(fjord=ZERO), Outflow()
    link.close(m.Reject("code", "why"))
    assert all_pulled(outflow, link, state) == [[m.Reject("code", "why")]]


def test_what_may_not_be_served_is_taken_off_the_list() -> None:
    link, outflow = session(fjord=ZERO, mesa=ZERO), Outflow()
    del link.cursors[MESA]
    assert pulled(outflow, link) == []
    assert link.ready == {}


def test_bulk_is_cut_into_chunks_of_which_one_goes_out_at_a_time() -> None:
    state, link, outflow = served(FJORD, 3000, 200), session(fjord=ZERO), Outflow()
    rounds = all_pulled(outflow, link, state)
    chunks = [transfers(messages) for messages in rounds]
    assert all(len(found) == 1 for found in chunks)
    assert len(chunks) > 4
    position = 0
    for (chunk,) in chunks:
        assert chunk.start == position
        position = chunk.to
        assert sum(len(entry[0]) + len(entry[3]) for entry in chunk.entries) <= CHUNK_BYTES
    assert [chunk.head is None for (chunk,) in chunks] == [True] * (len(chunks) - 1) + [False]
    assert sum(len(chunk.entries) for (chunk,) in chunks) == 3000


def test_a_chunk_holds_no_more_entries_than_a_peer_takes() -> None:
    state, link = served(FJORD, LIST_LIMIT + 10, 1), session(fjord=ZERO)
    outflow = Outflow(chunk_bytes=1 << 20)
    (first,), (second,) = map(transfers, all_pulled(outflow, link, state))
    assert (len(first.entries), first.to, first.head) == (LIST_LIMIT, LIST_LIMIT, None)
    assert (second.start, len(second.entries), second.head) == (LIST_LIMIT, 10, state.head)


def test_live_deltas_overtake_bulk_and_only_one_bulk_transfer_moves_at_a_time() -> None:
    bulk, other, news = served(FJORD, 3000, 200), served(TUNDRA, 3000, 200), served(MESA, 5)
    link, outflow = session(fjord=ZERO, tundra=ZERO, mesa=Version(1, 3)), Outflow()
    first = transfers(pulled(outflow, link, bulk, other, news))
    assert [chunk.origin for chunk in first] == [MESA, FJORD]
    second = transfers(pulled(outflow, link, bulk, other, news))
    assert [chunk.origin for chunk in second] == [TUNDRA]
    third = transfers(pulled(outflow, link, bulk, other, news))
    assert [chunk.origin for chunk in third] == [FJORD]


def test_a_pull_is_bounded_and_bulk_moves_on_even_under_load() -> None:
    names = [f"c{number}" for number in range(8)]
    states = [served(Origin(name), 1001, 300) for name in names]
    bulk = served(FJORD, 3000, 200)
    link = session(fjord=ZERO, **dict.fromkeys(names, Version(1, 1)))
    outflow = Outflow()
    frames = outflow.pull(link, {s.head.origin: s for s in [bulk, *states]}.get)
    assert sum(map(len, frames)) < PULL_BYTES + 3 * CHUNK_BYTES
    origins = [chunk.origin.cluster for chunk in transfers([decode(f) for f in frames])]
    assert origins[-1] == "fjord"
    assert len(origins) < 8
    # Whoever was not served waits in front of those who were.
    again = transfers(pulled(outflow, link, bulk, *states))
    assert again[0].origin.cluster not in origins


def test_superseded_changes_collapse_while_a_peer_does_not_read() -> None:
    elements, link, outflow = OriginSet(), session(fjord=Version(1, 1)), Outflow()
    element = pack([99, "fjord"])
    for stamp in range(1, 2000):
        elements.advance([(element, stamp, 0, pack(stamp))], version=Version(1, stamp), floor=0)
    head = Head(FJORD, 1, None, 1999, 0, 1, elements.root(), 9, 0, b"key", b"s")
    state = Served(elements.since, head, m.Record(FJORD, b"key", (b"leaf",)))
    (chunk,) = transfers(pulled(outflow, link, state))
    assert chunk.entries == ((element, 1999, 0, pack(1999)),)


def test_a_chunk_is_encoded_once_for_all_peers_at_the_same_cursor() -> None:
    state, outflow = served(FJORD, 3000, 200), Outflow()
    links = [session(fjord=ZERO) for _ in range(5)]
    rounds = [all_pulled(outflow, link, state) for link in links]
    assert all(messages == rounds[0] for messages in rounds)
    assert outflow.encoded == len(rounds[0])
    behind = session(fjord=Version(1, 2999))
    pulled(outflow, behind, state)
    assert outflow.encoded == len(rounds[0]) + 1


def test_a_delta_and_a_snapshot_from_the_same_place_are_two_chunks() -> None:
    state, outflow = served(FJORD, 3), Outflow()
    delta, snapshot = session(fjord=Version(1, 2)), session(fjord=ZERO)
    snapshot.cursors[FJORD].aim(state.head)
    snapshot.cursors[FJORD].sent(2, None)
    for link, replaces in ((delta, False), (snapshot, True)):
        (chunk,) = transfers(pulled(outflow, link, state))
        assert (chunk.snapshot, chunk.start, chunk.to) == (replaces, 2, 3)


def test_encoded_chunks_are_not_kept_for_ever() -> None:
    outflow = Outflow()
    for stamp in range(1, 100):
        pulled(outflow, session(fjord=ZERO), served(FJORD, stamp))
    assert len(outflow._cuts) == 64


def test_a_transfer_that_was_overtaken_goes_on_to_the_later_head() -> None:
    link, outflow = session(fjord=ZERO), Outflow(chunk_bytes=100)
    elements = OriginSet()

    def state(first: int, last: int) -> Served:
        entries: list[Entry] = [
            (pack([99, "fjord", n]), n, 0, pack("x" * 60)) for n in range(first, last + 1)
        ]
        elements.advance(entries, version=Version(1, last), floor=0)
        root = elements.root()
        head = Head(FJORD, 1, None, last, 0, len(elements), root, last, 0, b"key", b"s")
        return Served(elements.since, head, m.Record(FJORD, b"key", (b"leaf",)))

    first = transfers(pulled(outflow, link, state(1, 4)))
    rest = [c for found in all_pulled(outflow, link, state(5, 6)) for c in transfers(found)]
    chunks = [*first, *rest]
    assert [chunk.to for chunk in chunks] == [1, 2, 3, 4, 5, 6]
    assert chunks[-1].head is not None
    assert chunks[-1].head.stamp == 6
