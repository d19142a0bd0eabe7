"""One conversation: its outbox, its beats, its end."""

from __future__ import annotations

import pytest

from crdt import Origin
from replicator import messages as m
from replicator.codec import decode
from replicator.errors import ProtocolError
from replicator.session import (
    BEAT_BUSY_SECONDS,
    BEAT_IDLE_SECONDS,
    HELLO_SECONDS,
    SETTLE_SECONDS,
    SILENCE_SECONDS,
    Session,
)

HELLO = m.Hello(0, "set", "mesa", "m-1", "writer", 1, "uid", "test", 1 << 20)
SECOND = 1_000_000_000


def session(*, greeted: bool = True) -> Session:
    """A link to mesa, opened at 100 s."""
    link = Session(1, "mesa", dialled=True, now=100.0)
    link.peer = HELLO if greeted else None
    return link


def test_what_is_said_is_taken_once_in_order() -> None:
    link = session()
    assert not link.has_outbox
    link.say(m.Stop(Origin("a")))
    link.say(m.Stop(Origin("b")))
    assert link.has_outbox
    assert [decode(frame) for frame in link.take_outbox()] == [
        m.Stop(Origin("a")),
        m.Stop(Origin("b")),
    ]
    assert link.take_outbox() == []


def test_a_peer_that_does_not_read_is_given_up_and_costs_bounded_memory() -> None:
    # Raising here would hit whoever happened to speak: the tick of the whole replica, or the
    # session of an innocent peer whose news made us say something to this one.
    link = session()
    for _ in range(10_000):
        link.say(m.Stop(Origin("a")))
    assert link.overdue(100.0) is None
    link.say(m.Stop(Origin("a")))
    assert link.overdue(100.0) == "does not read"
    assert len(link.take_outbox()) == 10_000


def test_a_link_without_hello_is_given_up() -> None:
    link = session(greeted=False)
    assert link.overdue(100.0 + HELLO_SECONDS) is None
    assert link.overdue(100.1 + HELLO_SECONDS) == "no hello"


def test_a_silent_link_is_given_up() -> None:
    link = session()
    link.heard_at = 107.0
    assert link.overdue(107.0 + SILENCE_SECONDS) is None
    assert link.overdue(107.1 + SILENCE_SECONDS) == "silent"


def test_the_last_word_replaces_what_waits() -> None:
    link = session()
    link.say(m.Stop(Origin("a")))
    link.close(m.Reject("code", "why"))
    assert link.closing
    assert link.peer is None
    assert [decode(frame) for frame in link.take_outbox()] == [m.Reject("code", "why")]


def test_without_a_last_word_what_waits_is_still_sent() -> None:
    link = session()
    link.say(m.Stop(Origin("a")))
    link.close()
    assert [decode(frame) for frame in link.take_outbox()] == [m.Stop(Origin("a"))]


def test_records_are_kept_for_what_was_asked_and_bounded() -> None:
    link = session()
    link.keep_record(m.Record(Origin("a"), b"k", (b"leaf",)))
    assert link.records == {}
    large = (b"x" * (1 << 20),) * 8
    for name in ("a", "b"):
        link.wanting.add(Origin(name))
        link.keep_record(m.Record(Origin(name), b"k", large))
    link.enquiries.add(Origin("c"))
    with pytest.raises(ProtocolError) as caught:
        link.keep_record(m.Record(Origin("c"), b"k", (b"x",)))
    assert caught.value.code == "too_large"


def test_beats_follow_each_other_in_two_seconds_when_idle() -> None:
    link = session()
    assert link.beat_due == 100.0
    assert link.beat(b"d", 100.0, 5) == m.Beat(5, 0, 0, b"d")
    assert link.beat_due == 100.0 + BEAT_IDLE_SECONDS


def test_a_beat_follows_a_burst_once_it_settles() -> None:
    link = session()
    link.beat(b"d", 100.0, 5)
    link.settle(100.5)
    assert link.beat_due == 100.5 + SETTLE_SECONDS
    link.settle(100.6)
    assert link.beat_due == 100.6 + SETTLE_SECONDS
    link.beat(b"d", 100.8, 5)
    assert link.beat_due == 100.8 + BEAT_BUSY_SECONDS
    link.beat(b"d", 101.8, 5)
    assert link.beat_due == 101.8 + BEAT_IDLE_SECONDS


def test_under_lasting_traffic_a_beat_goes_out_every_second() -> None:
    link = session()
    now, beats = 100.0, []
    while now < 110.0:
        now += 0.01
        link.settle(now)
        if now >= link.beat_due:
            beats.append(now)
            link.beat(b"d", now, 5)
    assert 9 <= len(beats) <= 11


def test_two_beats_measure_round_trip_and_offset() -> None:
    link = session()
    assert (link.rtt_ns, link.offset_ns) == (0, 0)
    there = 7 * SECOND
    # Theirs of 1 s arrives here at 1.02 s, ours of 2 s there at 2.03 s; theirs of 3 s answers it.
    link.heard_beat(m.Beat(1 * SECOND + there, 0, 0, b"a"), 101.02, 1_020_000_000)
    assert (link.rtt_ns, link.peer_digest, link.beat_heard_at) == (0, b"a", 101.02)
    ours = link.beat(b"d", 102.0, 2 * SECOND)
    assert ours == m.Beat(2 * SECOND, 1 * SECOND + there, 1_020_000_000, b"d")
    theirs = m.Beat(3 * SECOND + there, 2 * SECOND, 2_030_000_000 + there, b"b")
    link.heard_beat(theirs, 103.02, 3_020_000_000)
    assert link.rtt_ns == 50_000_000
    assert link.offset_ns == there + 5_000_000
    assert link.peer_digest == b"b"


@pytest.mark.parametrize("step_seconds", [3 * 3600, -27 * 3600])
def test_c45_a_step_of_the_wall_clock_moves_no_wait(step_seconds: int) -> None:
    link = session()
    wall = 1_764_655_200 * SECOND
    link.beat(b"d", 100.0, wall)
    link.heard_beat(m.Beat(wall, 0, 0, b"a"), 100.0, wall)
    wall += step_seconds * SECOND
    link.heard_at = 102.0
    link.settle(102.0)
    assert link.beat_due == 102.0
    link.beat(b"d", 102.0, wall)
    assert link.beat_due == 102.0 + BEAT_BUSY_SECONDS
    assert link.overdue(104.0) is None


def test_the_peers_wall_clock_is_known_from_its_beats_whatever_ours_does() -> None:
    link = session()
    assert link.peer_wall_ns(100.0) is None
    link.heard_beat(m.Beat(50 * SECOND, 0, 0, b"d"), 101.0, 7 * SECOND)
    assert link.peer_wall_ns(101.0) == 50 * SECOND
    assert link.peer_wall_ns(103.5) == 52.5 * SECOND
