"""What every journal answers, on files and in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdt import Entry
from replicator.errors import JournalError
from replicator.journal import Journal, OwnBatch, OwnState, RemoteCommit, RemoteState
from replicator.journal_memory import Disk, MemoryJournal

ADD, REMOVE = 0, 1
LARGEST = 2**63 - 1
Open = Callable[[], Awaitable[Journal]]


def batch(
    *entries: Entry, stamp: int = 1, floor: int = 0, head: bytes | None = b"head"
) -> OwnBatch:
    return OwnBatch(1, stamp + 5, stamp, head, entries, floor)


def commit(
    *entries: Entry,
    cluster: str = "mesa",
    head: bytes = b"h",
    floor: int = 0,
    replace: bool = False,
) -> RemoteCommit:
    return RemoteCommit(cluster, 0, head, b"record", entries, floor, replace)


@pytest.fixture(params=["sqlite", "memory"])
async def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """Closes the journal that is open and opens it again on the same disk."""
    disk = Disk()
    current: list[Journal] = []

    async def again() -> Journal:
        if current:
            await current.pop().close()
        kind = request.param
        current.append(
            MemoryJournal(disk) if kind == "memory" else await Journal.open(tmp_path / "state")
        )
        return current[0]

    yield again
    await current[0].close()


async def test_a_new_journal_knows_nothing(reopen: Open) -> None:
    journal = await reopen()
    assert await journal.load() == (None, [])
    assert await journal.recall("uid") is None


async def test_own_state_survives_a_restart_with_numbers_and_bytes_exact(reopen: Open) -> None:
    entries = ((b"\x00\xff", 1, ADD, b""), (b"e" * 65_536, LARGEST, ADD, bytes(range(256))))
    await (await reopen()).persist_own(OwnBatch(LARGEST, LARGEST, LARGEST, b"", entries, 0))
    state = OwnState(LARGEST, LARGEST, LARGEST, b"", list(entries))
    assert await (await reopen()).load() == (state, [])


async def test_entries_come_back_in_the_order_of_stamps(reopen: Open) -> None:
    journal = await reopen()
    await journal.persist_own(
        batch((b"a", 3, ADD, b"x"), (b"c", 1, ADD, b"x"), (b"b", 2, ADD, b"x"))
    )
    own, _ = await journal.load()
    assert own is not None
    assert [entry[1] for entry in own.entries] == [1, 2, 3]


async def test_a_later_entry_takes_the_place_of_an_earlier_one(reopen: Open) -> None:
    journal = await reopen()
    await journal.persist_own(batch((b"a", 1, ADD, b"x"), (b"b", 2, ADD, b"x")))
    await journal.persist_own(batch((b"a", 3, REMOVE, b"\xc0"), stamp=3, head=b"later"))
    expected = OwnState(1, 8, 3, b"later", [(b"b", 2, ADD, b"x"), (b"a", 3, REMOVE, b"\xc0")])
    assert (await journal.load())[0] == expected


async def test_a_batch_that_replaces_leaves_nothing_of_before(reopen: Open) -> None:
    journal = await reopen()
    await journal.persist_own(batch((b"a", 90, ADD, b"1"), (b"b", 91, REMOVE, b""), stamp=91))
    await journal.persist_own(OwnBatch(2, 9, 5, b"new", ((b"a", 5, ADD, b"1"),), 0, replace=True))
    state = OwnState(2, 9, 5, b"new", [(b"a", 5, ADD, b"1")])
    assert await (await reopen()).load() == (state, [])


async def test_a_batch_without_a_head_keeps_the_stored_one(reopen: Open) -> None:
    journal = await reopen()
    await journal.persist_own(batch((b"a", 1, ADD, b"x"), head=None))
    own, _ = await journal.load()
    assert own is not None
    assert own.head is None
    await journal.persist_own(batch(head=b"first"))
    await journal.persist_own(batch((b"b", 2, ADD, b"x"), stamp=2, head=None))
    own, _ = await (await reopen()).load()
    assert own is not None
    assert (own.head, own.last_stamp, len(own.entries)) == (b"first", 2, 2)


@pytest.mark.parametrize("floor", [1, 2, 3])
async def test_the_floor_drops_tombstones_up_to_it_and_no_live_entry(
    reopen: Open, floor: int
) -> None:
    journal = await reopen()
    live = (b"live", 1, ADD, b"x")
    dead = (b"dead", 2, REMOVE, b"\xc0")
    await journal.persist_own(batch(live, dead))
    await journal.persist_own(batch(stamp=4, floor=floor))
    await journal.persist_remote([commit(live, dead)])
    await journal.persist_remote([commit(floor=floor)])
    own, remotes = await (await reopen()).load()
    kept = [live] if floor >= 2 else [live, dead]
    assert own is not None
    assert own.entries == kept
    assert remotes[0].entries == kept


async def test_a_tombstone_of_the_same_batch_as_its_floor_is_not_kept(reopen: Open) -> None:
    journal = await reopen()
    dead = (b"dead", 2, REMOVE, b"\xc0")
    await journal.persist_own(batch(dead, floor=2))
    await journal.persist_remote([commit(dead, floor=2)])
    own, remotes = await journal.load()
    assert own is not None
    assert own.entries == remotes[0].entries == []


async def test_a_remote_delta_adds_and_a_snapshot_replaces(reopen: Open) -> None:
    journal = await reopen()
    await journal.persist_remote([commit((b"a", 1, ADD, b"x"), (b"b", 2, ADD, b"y"))])
    await journal.persist_remote([commit((b"b", 3, ADD, b"z"), head=b"h2")])
    delta = RemoteState("mesa", 0, b"h2", b"record", [(b"a", 1, ADD, b"x"), (b"b", 3, ADD, b"z")])
    assert await journal.load() == (None, [delta])
    await journal.persist_remote([commit((b"c", 1, ADD, b"w"), head=b"h3", replace=True)])
    snapshot = RemoteState("mesa", 0, b"h3", b"record", [(b"c", 1, ADD, b"w")])
    assert await (await reopen()).load() == (None, [snapshot])


async def test_origins_are_kept_apart_and_listed_in_order(reopen: Open) -> None:
    journal = await reopen()
    entry = (b"same", 1, ADD, b"x")
    second = RemoteCommit("fjord", 1, b"h", b"r", (entry,), 0, replace=False)
    first = RemoteCommit("fjord", 0, b"h", b"r", (entry,), 0, replace=False)
    await journal.persist_remote([commit(entry, cluster="mesa"), second, first])
    await journal.persist_remote([commit(cluster="mesa", replace=True)])
    _, remotes = await journal.load()
    found = [(state.cluster, state.shard, state.entries) for state in remotes]
    assert found == [("fjord", 0, [entry]), ("fjord", 1, [entry]), ("mesa", 0, [])]


async def test_commits_of_one_call_apply_in_their_order(reopen: Open) -> None:
    journal = await reopen()
    first, second = (b"a", 1, ADD, b"x"), (b"b", 2, ADD, b"y")
    await journal.persist_remote([commit(first), commit(second, replace=True), commit(first)])
    assert (await journal.load())[1][0].entries == [first, second]


async def test_a_draft_takes_the_place_of_an_origin_when_it_is_finished(reopen: Open) -> None:
    journal = await reopen()
    old, new, last = (b"old", 1, ADD, b"x"), (b"new", 2, ADD, b"y"), (b"last", 4, ADD, b"z")
    gone = (b"gone", 3, REMOVE, b"\xc0")
    await journal.persist_remote([commit(old), commit(old, cluster="tundra")])
    number = await journal.begin_remote()
    await journal.draft_remote(number, [new, gone])
    _, remotes = await journal.load()
    assert [state.entries for state in remotes] == [[old], [old]]
    await journal.persist_remote([commit(old, cluster="fjord")])
    await journal.finish_remote(number, commit(last, head=b"h2", floor=3, replace=True))
    await journal.persist_remote([commit((b"next", 5, ADD, b"w"), head=b"h3")])
    journal = await reopen()
    _, remotes = await journal.load()
    assert [(state.cluster, state.head) for state in remotes] == [
        ("fjord", b"h"),
        ("mesa", b"h3"),
        ("tundra", b"h"),
    ]
    assert [entry[0] for entry in remotes[1].entries] == [b"new", b"last", b"next"]
    assert remotes[0].entries == remotes[2].entries == [old]


async def test_a_draft_that_was_not_finished_is_lost(reopen: Open) -> None:
    journal = await reopen()
    old = (b"old", 1, ADD, b"x")
    await journal.persist_remote([commit(old)])
    await journal.draft_remote(await journal.begin_remote(), [(b"half", 2, ADD, b"y")])
    journal = await reopen()
    assert [state.entries for state in (await journal.load())[1]] == [[old]]
    number = await journal.begin_remote()
    await journal.finish_remote(number, commit((b"a", 3, ADD, b"x"), cluster="fjord"))
    number = await journal.begin_remote()
    await journal.finish_remote(number, commit(cluster="tundra"))
    found = [(state.cluster, state.entries) for state in (await journal.load())[1]]
    assert found == [("fjord", [(b"a", 3, ADD, b"x")]), ("mesa", [old]), ("tundra", [])]


async def test_a_dropped_origin_leaves_nothing_and_the_others_alone(reopen: Open) -> None:
    journal = await reopen()
    kept = commit((b"b", 3, ADD, b"2"), cluster="tundra")
    await journal.persist_remote([commit((b"a", 3, ADD, b"1")), kept])
    await journal.drop_remote([("mesa", 0), ("steppe", 0), ("tundra", 1)])
    journal = await reopen()
    _, remotes = await journal.load()
    assert [state.cluster for state in remotes] == ["tundra"]
    # What comes of it later begins anew.
    await journal.persist_remote([commit((b"c", 5, ADD, b"3"))])
    _, remotes = await (await reopen()).load()
    assert remotes[0] == RemoteState("mesa", 0, b"h", b"record", [(b"c", 5, ADD, b"3")])


async def test_facts_survive_and_are_replaced(reopen: Open) -> None:
    journal = await reopen()
    await journal.remember("uid/mesa", b"\x00one")
    await journal.remember("uid/fjord", b"")
    await journal.remember("uid/mesa", b"two")
    journal = await reopen()
    assert await journal.recall("uid/mesa") == b"two"
    assert await journal.recall("uid/fjord") == b""
    assert await journal.load() == (None, [])


async def test_calls_after_close_are_refused_and_close_may_be_repeated(reopen: Open) -> None:
    journal = await reopen()
    await journal.close()
    await journal.close()
    for call in (
        journal.persist_own(batch()),
        journal.persist_remote([commit()]),
        journal.load(),
        journal.remember("a", b""),
        journal.recall("a"),
    ):
        with pytest.raises(JournalError, match="closed"):
            await call


async def test_one_state_has_one_journal_at_a_time(reopen: Open, tmp_path: Path) -> None:
    journal = await reopen()
    with pytest.raises(JournalError, match="in use") as caught:
        await _second(journal, tmp_path / "state")
    assert caught.value.code == "journal_locked"
    assert caught.value.cure
    await journal.persist_own(batch())


async def _second(journal: Journal, folder: Path) -> Journal:
    if isinstance(journal, MemoryJournal):
        return MemoryJournal(journal.disk)
    return await Journal.open(folder)


async def test_calls_made_at_once_are_carried_out_in_their_order(reopen: Open) -> None:
    journal = await reopen()
    calls = [journal.persist_own(batch((b"a", n, ADD, b"%d" % n), stamp=n)) for n in range(1, 20)]
    seconds = await asyncio.gather(*calls)
    assert min(seconds) >= 0.0
    own, _ = await journal.load()
    assert own is not None
    assert (own.last_stamp, own.entries) == (19, [(b"a", 19, ADD, b"19")])


_ENTRY = st.tuples(
    st.sampled_from([b"a", b"b", b"c", b"d"]),
    st.integers(0, 6),
    st.sampled_from([ADD, REMOVE]),
    st.binary(max_size=3),
)
_STEP = st.one_of(
    st.builds(
        lambda entries, floor, stamp: batch(*entries, floor=floor, stamp=stamp),
        st.lists(_ENTRY, max_size=4),
        st.integers(0, 6),
        st.integers(0, 9),
    ),
    st.builds(
        lambda entries, floor, replace, cluster: commit(
            *entries, floor=floor, replace=replace, cluster=cluster
        ),
        st.lists(_ENTRY, max_size=4),
        st.integers(0, 6),
        st.booleans(),
        st.sampled_from(["mesa", "fjord"]),
    ),
)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(_STEP, max_size=8))
async def test_files_and_memory_hold_the_same_after_any_steps(
    tmp_path_factory: pytest.TempPathFactory, steps: list[OwnBatch | RemoteCommit]
) -> None:
    folder = tmp_path_factory.mktemp("state")
    journals = [await Journal.open(folder), MemoryJournal()]
    try:
        for journal in journals:
            for step in steps:
                if isinstance(step, OwnBatch):
                    await journal.persist_own(step)
                else:
                    await journal.persist_remote([step])
        on_disk, in_memory = [_comparable(await journal.load()) for journal in journals]
        assert on_disk == in_memory
    finally:
        for journal in journals:
            await journal.close()


def _comparable(loaded: tuple[OwnState | None, list[RemoteState]]) -> object:
    own, remotes = loaded
    version = own and (own.epoch, own.ceiling, own.last_stamp, own.head)
    entries = own and sorted(own.entries)
    return version, entries, [(r.cluster, r.shard, r.head, sorted(r.entries)) for r in remotes]


async def test_the_memory_journal_fails_as_often_as_asked_and_changes_nothing_then() -> None:
    journal = MemoryJournal()
    journal.fail(JournalError("no space", code="journal_full"), times=2)
    with pytest.raises(JournalError, match="no space"):
        await journal.persist_own(batch((b"a", 1, ADD, b"x")))
    with pytest.raises(JournalError, match="no space"):
        await journal.persist_remote([commit((b"a", 1, ADD, b"x"))])
    assert await journal.load() == (None, [])
    assert journal.commits == 0
    await journal.persist_own(batch())
    assert journal.commits == 1
