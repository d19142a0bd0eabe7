"""Logs in the order of stamps: read from anywhere, kept short, and never rewritten at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hypothesis import given
from hypothesis import strategies as st

from crdt.entries import ADD, NIL, Stored, stored_of
from crdt.entry_log import SEGMENT, EntryLog


def key(number: int) -> bytes:
    """Element number ``number``."""
    return b"e%d" % number


class Entries(Mapping[bytes, Stored]):
    """What is current, counting how often it is asked."""

    def __init__(self) -> None:
        self.now: dict[bytes, Stored] = {}
        self.asked = 0

    def __getitem__(self, element: bytes) -> Stored:
        self.asked += 1
        return self.now[element]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.now)

    def __len__(self) -> int:
        return len(self.now)


def put(log: EntryLog, entries: Entries, number: int, stamp: int) -> None:
    """One more position."""
    entries.now[key(number)] = stored_of(stamp, ADD, NIL)
    log.append(stamp, key(number))


def current(log: EntryLog, entries: Entries, after: int = -1) -> list[int]:
    """Stamps after ``after`` that are not superseded."""
    held = {element: int.from_bytes(stored[:8], "big") for element, stored in entries.now.items()}
    return [stamp for stamp, element in log.after(after) if held.get(element) == stamp]


@given(
    st.lists(st.integers(0, 6), max_size=40),
    st.integers(-1, 41),
    st.integers(0, 41),
)
def test_what_is_current_is_read_in_order_whatever_was_swept_and_forgotten(
    numbers: list[int], after: int, floor: int
) -> None:
    log, entries = EntryLog(), Entries()
    for stamp, number in enumerate(numbers, 1):
        put(log, entries, number, stamp)
        log.sweep(entries, 0, 40)
    log.forget(floor)
    wanted = sorted({number: stamp for stamp, number in enumerate(numbers, 1)}.values())
    assert current(log, entries, after) == [s for s in wanted if s > max(after, floor)]


def test_a_long_log_is_read_from_any_stamp() -> None:
    log = EntryLog()
    for stamp in range(0, 6 * SEGMENT, 2):
        log.append(stamp, key(stamp))
    for after in (-1, 0, 1, SEGMENT, 2 * SEGMENT - 1, 6 * SEGMENT - 3, 6 * SEGMENT):
        stamps = [stamp for stamp, _ in log.after(after)]
        assert stamps == list(range(after + 1 + (after + 1) % 2, 6 * SEGMENT, 2))


def test_a_log_is_put_behind_another_and_goes_on() -> None:
    for size in (3, SEGMENT - 1, SEGMENT, 2 * SEGMENT + 5):
        log, more = EntryLog(), EntryLog()
        for stamp in range(1, 11):
            log.append(stamp, key(stamp))
        for stamp in range(11, 11 + size):
            more.append(stamp, key(stamp))
        log.extend(more)
        log.append(11 + size, key(11 + size))
        assert [stamp for stamp, _ in log.after(4)] == list(range(5, 12 + size))
        assert len(log) == 11 + size


def test_positions_up_to_a_stamp_are_forgotten() -> None:
    log = EntryLog()
    for stamp in range(3 * SEGMENT):
        log.append(stamp, key(stamp))
    for floor in (SEGMENT // 2, SEGMENT - 1, 2 * SEGMENT + 7, 2 * SEGMENT + 7):
        log.forget(floor)
        assert [stamp for stamp, _ in log.after(-1)] == list(range(floor + 1, 3 * SEGMENT))
        assert len(log) == 3 * SEGMENT - floor - 1
    log.forget(3 * SEGMENT)
    assert list(log.after(-1)) == []
    log.append(3 * SEGMENT + 1, key(1))
    assert list(log.after(-1)) == [(3 * SEGMENT + 1, key(1))]


def test_no_put_sweeps_more_than_a_little_and_the_log_stays_short() -> None:
    log, entries = EntryLog(), Entries()
    number, most = 3 * SEGMENT, 0
    for stamp in range(12 * number):
        put(log, entries, stamp * 7 % number, stamp)
        before = entries.asked
        log.sweep(entries, len(entries), 1)
        most = max(most, entries.asked - before)
        assert len(log) <= 2 * number + 64
    assert 0 < most <= SEGMENT
    assert current(log, entries) == list(range(11 * number, 12 * number))
