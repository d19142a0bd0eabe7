"""A folder that cannot be followed as it should: no inotify, lost events, rights, open files."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from clusters.folder import POLL_SECONDS, RESCAN_SECONDS
from clusters.inotify import FolderEvent, Inotify, What
from clusters.manifest_file import Outcome, read_manifests
from tests.clusters.folder_bed import CART, FolderBed, following, text_of, unprivileged
from tests.support.clock import FakeClock

ONE, TWO, THREE = "10.20.1.1", "10.20.1.2", "10.20.1.3"


def no_inotify() -> Inotify:
    raise OSError(errno.EMFILE, "too many")


class SmallInotify(Inotify):
    """Has room for the folder, what it lies in, and one more."""

    def __init__(self) -> None:
        super().__init__()
        self.room = 3

    def watch(self, folder: Path, *, only: str | None = None) -> int | None:
        self.room -= 1
        if self.room < 0:
            raise OSError(errno.ENOSPC, "no room")
        return super().watch(folder, only=only)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def polled(root: Path, clock: FakeClock) -> AsyncIterator[FolderBed]:
    """A folder with one file that is followed without inotify."""
    (root / "cart.yaml").write_text(text_of(ONE))
    async with following(root, clock, no_inotify) as bed:
        yield bed


@pytest.fixture
def open_root() -> Iterator[Path]:
    """A folder that anybody may reach."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


async def look(bed: FolderBed, clock: FakeClock, seconds: float) -> None:
    """Let the next look be over."""
    await bed.until(lambda: seconds - 1e-6 < (clock.next_wake or 0) < seconds + 1e-6)
    clock.advance(seconds)
    await bed.until(lambda: clock.next_wake is not None)


def can_tell_writers(path: Path) -> bool:
    with path.open("a"):
        return read_manifests(path, ask_writers=True).outcome is Outcome.OPEN


# ---- without inotify ---------------------------------------------------------------------------


async def test_without_inotify_the_folder_is_polled(polled: FolderBed, clock: FakeClock) -> None:
    assert polled.addresses() == [ONE]
    assert "too many; looking every 0.5 s" in polled.error
    polled.write("cart.yaml", TWO)
    (polled.root / "inner").mkdir()
    for _ in range(2):
        await look(polled, clock, POLL_SECONDS)
    await polled.has(TWO)
    (polled.root / "cart.yaml").unlink()
    await polled.until(lambda: clock.sleepers)
    clock.advance(POLL_SECONDS)
    await polled.until(lambda: (clock.next_wake or 1) < POLL_SECONDS)
    clock.advance(POLL_SECONDS)
    await polled.has()


async def test_without_inotify_an_open_file_waits(polled: FolderBed, clock: FakeClock) -> None:
    path = polled.root / "cart.yaml"
    if not can_tell_writers(path):
        pytest.skip("this file system has no leases")
    with path.open("w") as file:
        file.write(text_of())
        file.flush()
        for _ in range(4):
            await look(polled, clock, POLL_SECONDS)
        assert polled.addresses() == [ONE]
        file.write(f"- addresses: ['{TWO}']\n")
    await look(polled, clock, POLL_SECONDS)
    await polled.has(TWO)
    assert all(addresses for key, addresses in polled.history if key == CART)


async def test_no_room_for_a_watch_makes_it_poll(root: Path, clock: FakeClock) -> None:
    (root / "cart.yaml").write_text(text_of(ONE))
    async with following(root, clock, SmallInotify) as bed:
        assert bed.error == ""
        (root / "one").mkdir()
        (root / "two").mkdir()
        (root / "cart.yaml").write_text(text_of(TWO))
        await bed.until(lambda: "no room; looking every 0.5 s" in bed.error)
        await bed.has(TWO)
        (root / "two" / "cart.yaml").write_text(text_of(THREE, service="marker"))
        for _ in range(2):
            await look(bed, clock, POLL_SECONDS)
        await bed.until(lambda: len(bed.folder.catalog.services()) == 2)


# ---- doubt -------------------------------------------------------------------------------------


async def test_what_is_open_at_the_start_waits(root: Path, clock: FakeClock) -> None:
    path = root / "cart.yaml"
    path.write_text(text_of(ONE))
    if not can_tell_writers(path):
        pytest.skip("this file system has no leases")
    with path.open("w") as file:
        file.write(text_of(ONE))
        file.flush()
        async with following(root, clock) as bed:
            assert bed.addresses() == []
            assert bed.error == ""
            for _ in range(2):
                await look(bed, clock, RESCAN_SECONDS)
            assert bed.addresses() == []
            assert "cart.yaml is open for writing for 20 s" in bed.error
            file.write(f"- addresses: ['{TWO}']\n")
            file.close()
            await bed.has(ONE, TWO)
            assert bed.error == ""


async def test_a_look_at_all_spares_what_is_being_written(root: Path, clock: FakeClock) -> None:
    (root / "cart.yaml").write_text(text_of(ONE))
    async with following(root, clock) as bed:
        with (root / "cart.yaml").open("w") as file:
            file.write(text_of())
            file.flush()
            for _ in range(3):
                await look(bed, clock, RESCAN_SECONDS)
            await bed.catch_up()
            assert bed.addresses() == [ONE]
            file.write(f"- addresses: ['{TWO}']\n")
        await bed.has(TWO)
        assert all(addresses for key, addresses in bed.history if key == CART)


async def test_where_writers_cannot_be_told_two_looks_decide(
    open_root: Path, clock: FakeClock
) -> None:
    (open_root / "cart.yaml").write_text(text_of(ONE))
    with unprivileged():
        async with following(open_root, clock, no_inotify) as bed:
            path = open_root / "cart.yaml"
            if os.geteuid() == path.stat().st_uid:
                pytest.skip("one's own files can be told about")
            descriptor = os.open(path, os.O_RDONLY)
            os.close(descriptor)
            assert bed.addresses() == [ONE]
            os.seteuid(0)
            path.write_text(text_of(TWO))
            os.seteuid(65534)
            await look(bed, clock, POLL_SECONDS)
            assert bed.addresses() == [ONE]
            await look(bed, clock, POLL_SECONDS)
            await bed.has(TWO)


class LateWriter(Inotify):
    """Tells of a writer that came while a file was being read, once."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path: Path | None = path
        self.calls = 0

    def take(self) -> list[FolderEvent]:
        events = super().take()
        if self.path is None:
            return events
        if FolderEvent(self.path, What.SETTLED) in events:
            self.calls = 1
        elif self.calls:
            self.calls += 1
        if self.calls < 3:  # Those of waiting and of beginning to read.
            return events
        late, self.path = self.path, None
        return [*events, FolderEvent(late, What.WRITING)]


async def test_what_is_written_to_while_it_is_read_waits(root: Path) -> None:
    path = root / "cart.yaml"
    path.write_text(text_of(ONE))
    async with following(root, watcher=lambda: LateWriter(path)) as bed:
        path.write_text(text_of(TWO))
        await bed.catch_up()
        assert bed.addresses() == [ONE]
        path.write_text(text_of(THREE))
        await bed.has(THREE)
        assert [addresses for key, addresses in bed.history if key == CART] == [(ONE,), (THREE,)]


# ---- lost events -------------------------------------------------------------------------------


def queue_length() -> int:
    return int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


async def test_lost_events_make_everything_be_looked_at(root: Path, clock: FakeClock) -> None:
    limit = queue_length()
    if limit > 100_000:
        pytest.skip("it takes too many events to lose one here")
    path = root / "cart.yaml"
    path.write_text(text_of(ONE))
    async with following(root, clock) as bed:
        names = str(root / "a"), str(root / "b")
        os.mknod(names[0])
        for number in range(limit // 2 + 10):  # The event loop does not run in here.
            os.rename(names[number % 2], names[1 - number % 2])  # noqa: PTH104 - much faster
        path.write_text(text_of(TWO))
        await bed.has(TWO)


# ---- rights ------------------------------------------------------------------------------------


async def test_what_may_not_be_read_is_not_gone(open_root: Path) -> None:
    inner = open_root / "inner"
    inner.mkdir()
    (inner / "cart.yaml").write_text(text_of(ONE))
    (open_root / "ledger.yaml").write_text(text_of(TWO, service="marker"))
    clock = FakeClock()
    with unprivileged():
        async with following(open_root, clock) as bed:
            assert bed.addresses() == [ONE]
            as_owner(open_root, inner, 0o000)
            as_owner(open_root, open_root / "ledger.yaml", 0o000)
            for _ in range(2):
                await look(bed, clock, RESCAN_SECONDS)
            assert bed.addresses() == [ONE]
            assert f"cannot look into {inner}" in bed.error
            assert "(and 1 more)" in bed.error
            assert bed.folder.file_errors == 1
            as_owner(open_root, inner, 0o755)
            as_owner(open_root, open_root / "ledger.yaml", 0o644)
            await look(bed, clock, RESCAN_SECONDS)
            await bed.until(lambda: not bed.error)
            assert len(bed.history) == 2, "nothing changed"


async def test_a_folder_that_may_not_be_listed_is_not_gone(open_root: Path) -> None:
    inner = open_root / "inner"
    inner.mkdir()
    (inner / "cart.yaml").write_text(text_of(ONE))
    clock = FakeClock()
    with unprivileged():
        async with following(inner, clock) as bed:
            await bed.until(lambda: clock.sleepers)
            as_owner(open_root, inner, 0o000)
            await look(bed, clock, RESCAN_SECONDS)
            await bed.until(lambda: "let the agent read it" in bed.error)
            assert bed.addresses() == [ONE]
            as_owner(open_root, inner, 0o444)
            await bed.until(lambda: clock.sleepers)
            as_owner(open_root, inner, 0o755)
            clock.advance(POLL_SECONDS)
            await bed.until(lambda: not bed.error)
            assert bed.addresses() == [ONE]


async def test_a_link_to_itself_is_not_gone(root: Path) -> None:
    (root / "cart.yaml").write_text(text_of(ONE))
    async with following(root) as bed:
        (root / "fresh").symlink_to("cart.yaml")
        (root / "fresh").rename(root / "cart.yaml")
        await bed.until(lambda: "cannot read" in bed.error)
        assert bed.addresses() == [ONE]
        (root / "cart.yaml").unlink()
        await bed.has()


def as_owner(beside: Path, path: Path, mode: int) -> None:
    """Change the mode as whoever made the folder."""
    former = os.geteuid()
    if former != os.getuid():
        os.seteuid(os.getuid())
    path.chmod(mode)
    if former != os.geteuid():
        os.seteuid(former)
