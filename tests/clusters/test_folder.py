"""What counts as a change of a folder of manifests: on real files and real inotify."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import yaml

from clusters.folder import GRACE_SECONDS, RESCAN_SECONDS
from clusters.inotify import FolderEvent, Inotify
from clusters.manifest_file import SIZE_LIMIT
from tests.clusters.folder_bed import CART, MARKER, FolderBed, following, text_of
from tests.support.clock import FakeClock

ONE, TWO, THREE = "10.20.1.1", "10.20.1.2", "10.20.1.3"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "with space"
    folder.mkdir()
    return folder


@pytest.fixture
async def bed(root: Path) -> AsyncIterator[FolderBed]:
    async with following(root) as bed:
        yield bed


def is_never_empty(bed: FolderBed) -> bool:
    return () not in [addresses for key, addresses in bed.history if key == CART]


# ---- files that come, change and go ------------------------------------------------------------


async def test_what_is_there_at_the_start_is_read(root: Path) -> None:
    (root / "deep" / "er").mkdir(parents=True)
    (root / "deep" / "er" / "cart.yml").write_text(text_of(ONE))
    (root / "ledger.json").write_text('{"kind": "Service", "metadata": {"name": "ledger"}}')
    async with following(root) as bed:
        assert bed.addresses() == [ONE]
        assert {str(key) for key in bed.folder.catalog.services()} == {
            "shop/cart",
            "default/ledger",
        }
        assert bed.error == ""


async def test_a_closed_file_counts(bed: FolderBed) -> None:
    ages = [bed.folder.last_event_age]
    path = bed.write("cart.yaml", ONE)
    await bed.has(ONE)
    with path.open("a") as file:
        file.write(f"- addresses: ['{TWO}']\n")
    await bed.has(ONE, TWO)
    assert bed.history == [(CART, (ONE,)), (CART, (ONE, TWO))]
    ages.append(bed.folder.last_event_age)
    assert [age is None for age in ages] == [True, False]
    path.unlink()
    await bed.has()


class _Interrupted(Inotify):
    """Calls back just before the folder falls asleep again after a look at everything."""

    def __init__(self) -> None:
        super().__init__()
        self.callback: Callable[[], object] | None = None
        self.asleep = False
        """The last time nothing was taken, so the next thing is to wait."""
        self._idle = 0

    def take(self) -> list[FolderEvent]:
        taken = super().take()
        self.asleep = not taken
        self._idle += not taken and self.callback is not None
        if self._idle == 2 and self.callback is not None:
            callback, self.callback = self.callback, None
            callback()
        return taken


async def test_what_comes_while_our_own_file_is_taken_in_is_followed_at_once(root: Path) -> None:
    clock, watchers = FakeClock(), []

    def watcher() -> Inotify:
        watchers.append(_Interrupted())
        return watchers[-1]

    async with following(root, clock, watcher) as bed:
        own = bed.write("own.yaml", TWO)
        await bed.has(TWO)
        done = asyncio.Event()

        async def interrupt() -> None:
            (root / "cart.yaml").write_text(text_of(ONE, name="other"))
            await bed.folder.reload(own, None)
            done.set()

        tasks = []
        await bed.catch_up()
        await bed.until(lambda: watchers[0].asleep and clock.sleepers)
        watchers[0].callback = lambda: tasks.append(asyncio.ensure_future(interrupt()))
        clock.advance(RESCAN_SECONDS)
        await bed.until(done.is_set)
        await bed.has(ONE, TWO)


async def test_a_half_written_file_is_never_read(bed: FolderBed) -> None:
    whole = text_of(ONE, TWO)
    half = whole.index(f"- addresses: ['{TWO}'")
    assert yaml.safe_load(whole[:half])["endpoints"], "half of it must be a good manifest"
    with (bed.root / "cart.yaml").open("w") as file:
        file.write(whole[:half])
        file.flush()
        await bed.catch_up()
        assert bed.addresses() == []
        file.write(whole[half:])
        file.flush()
        await bed.catch_up()
        assert bed.addresses() == []
    await bed.has(ONE, TWO)
    assert [addresses for key, addresses in bed.history if key == CART] == [(ONE, TWO)]


async def test_a_file_that_is_written_anew_keeps_its_content_until_closed(bed: FolderBed) -> None:
    path = bed.write("cart.yaml", ONE, TWO)
    await bed.has(ONE, TWO)
    with path.open("w") as file:
        await bed.catch_up()
        assert bed.addresses() == [ONE, TWO]
        file.write(text_of(THREE))
        file.flush()
        await bed.catch_up()
        assert bed.addresses() == [ONE, TWO]
    await bed.has(THREE)
    assert is_never_empty(bed)


async def test_a_writer_that_follows_at_once_is_waited_for(bed: FolderBed) -> None:
    path = bed.write("cart.yaml", ONE)
    await bed.has(ONE)
    path.write_text(text_of(TWO))
    with path.open("w") as file:  # The first event is not even taken yet.
        file.write(text_of())
        file.flush()
        await bed.catch_up()
        assert bed.addresses() == [ONE]
        file.write(f"- addresses: ['{THREE}']\n")
    await bed.has(THREE)
    assert is_never_empty(bed)


async def test_a_file_renamed_into_place_counts(bed: FolderBed) -> None:
    fresh = bed.root / "cart.yaml.tmp"
    for address in (ONE, TWO):
        fresh.write_text(text_of(address))
        await bed.catch_up()
        assert address not in bed.addresses()
        fresh.replace(bed.root / "cart.yaml")
        await bed.has(address)
    assert is_never_empty(bed)


async def test_a_file_linked_into_place_counts(bed: FolderBed) -> None:
    fresh = bed.root / "fresh"
    fresh.write_text(text_of(ONE))
    os.link(fresh, bed.root / "cart.yaml")
    fresh.unlink()
    await bed.has(ONE)


async def test_a_renamed_file_is_never_missed_in_between(bed: FolderBed) -> None:
    path = bed.write("cart.yaml", ONE)
    await bed.has(ONE)
    path = path.rename(bed.root / "a.yaml")
    await bed.catch_up()
    path.rename(bed.root / "z.yaml")
    await bed.catch_up()
    (bed.root / "inner").mkdir()
    (bed.root / "z.yaml").rename(bed.root / "inner" / "z.yaml")
    await bed.catch_up()
    (bed.root / "inner").rename(bed.root / "other")
    await bed.catch_up()
    assert bed.addresses() == [ONE]
    assert [addresses for key, addresses in bed.history if key == CART] == [(ONE,)]
    (bed.root / "other" / "z.yaml").unlink()
    await bed.has()


async def test_an_editor_may_put_the_old_file_away_first(root: Path) -> None:
    clock = FakeClock()
    (root / "cart.yaml").write_text(text_of(ONE))
    async with following(root, clock) as bed:
        (root / "cart.yaml").rename(root / "cart.yaml~")
        await bed.until(lambda: (clock.next_wake or 1) <= GRACE_SECONDS)
        (root / "cart.yaml").write_text(text_of(TWO))
        clock.advance(GRACE_SECONDS)
        await bed.has(TWO)
        assert is_never_empty(bed)

        (root / "cart.yaml").unlink()
        await bed.until(lambda: (clock.next_wake or 1) <= GRACE_SECONDS)
        clock.advance(GRACE_SECONDS)
        await bed.has()


async def test_a_touched_file_changes_nothing(bed: FolderBed) -> None:
    path = bed.write("cart.yaml", ONE)
    await bed.has(ONE)
    path.touch()
    path.write_text(text_of(ONE))
    await bed.catch_up()
    assert [addresses for key, addresses in bed.history if key == CART] == [(ONE,)]


async def test_a_dump_that_was_edited_by_hand_counts(bed: FolderBed) -> None:
    manifest = yaml.safe_load(text_of(ONE))
    manifest["metadata"] |= {"uid": "af-17", "resourceVersion": "4711"}
    path = bed.root / "cart.yaml"
    path.write_text(yaml.safe_dump(manifest))
    await bed.has(ONE)
    manifest["endpoints"] = [{"addresses": [TWO]}]
    path.write_text(yaml.safe_dump(manifest))
    await bed.has(TWO)


# ---- what is no manifest -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("utf-16", text_of(TWO).encode("utf-16")),
        ("latin-1", b"# caf\xe9\n" + text_of(TWO).encode()),
        ("binary", bytes(range(256)) * 40),
        ("zeros", bytes(4096)),
        ("no YAML", b"endpoints: [unclosed\n"),
        ("no object", b"just a text\n"),
        ("no kind", b"metadata: {name: cart}\n"),
        ("no name", b"kind: EndpointSlice\nmetadata: {namespace: shop}\n"),
        ("one of two", text_of(TWO).encode() + b"---\nkind: Service\nmetadata: {name: 7}\n"),
    ],
)
async def test_what_does_not_parse_keeps_its_last_good_content(
    bed: FolderBed, name: str, content: bytes
) -> None:
    path = bed.write("cart.yaml", ONE)
    await bed.has(ONE)
    path.write_bytes(content)
    await bed.until(lambda: bed.error)
    assert str(path) in bed.error, name
    assert "; " in bed.error, "it names no cure"
    assert "\n" not in bed.error
    assert len(bed.error) < 500
    assert bed.folder.file_errors == 1
    await bed.catch_up()
    assert bed.addresses() == [ONE]

    path.write_text(text_of(THREE))
    await bed.has(THREE)
    assert bed.error == ""
    assert bed.folder.file_errors == 1


async def test_deleting_what_does_not_parse_removes(bed: FolderBed) -> None:
    path = bed.write("cart.yaml", ONE)
    await bed.has(ONE)
    path.write_text("{")
    await bed.until(lambda: bed.error)
    path.unlink()
    await bed.has()
    await bed.until(lambda: not bed.error)


@pytest.mark.parametrize("how", ["bom", "crlf"])
async def test_other_editors_text_is_read(bed: FolderBed, how: str) -> None:
    text = text_of(ONE)
    data = b"\xef\xbb\xbf" + text.encode() if how == "bom" else text.replace("\n", "\r\n").encode()
    (bed.root / "cart.yaml").write_bytes(data)
    await bed.has(ONE)
    assert bed.error == ""


async def test_an_emptied_file_offers_nothing(bed: FolderBed) -> None:
    path = bed.write("cart.yaml", ONE)
    await bed.has(ONE)
    path.write_text("# nothing for now\n")
    await bed.has()
    assert bed.error == ""


async def test_a_wrong_file_stops_no_other(bed: FolderBed) -> None:
    for name in ("a.yaml", "b.yaml", "c.yaml"):
        (bed.root / name).write_text("kind: [")
    bed.write("cart.yaml", ONE)
    await bed.has(ONE)
    await bed.until(lambda: "(and 2 more)" in bed.error)
    assert "a.yaml" in bed.error
    assert bed.folder.file_errors == 3


async def test_a_huge_file_is_refused(bed: FolderBed) -> None:
    path = bed.write("cart.yaml", ONE)
    await bed.has(ONE)
    with path.open("r+b") as file:
        file.truncate(SIZE_LIMIT + 1)
    await bed.until(lambda: "larger than" in bed.error)
    assert bed.addresses() == [ONE]


async def test_hidden_and_temporary_files_are_ignored(bed: FolderBed) -> None:
    (bed.root / ".git").mkdir()
    names = [
        *(".cart.yaml", ".cart.yaml.swp", ".#cart.yaml", "#cart.yaml#", "cart.yaml~", "4913"),
        *("cart.yaml.tmp", "cart.yaml.bak", "cart.txt", ".git/cart.yaml", ".goutputstream-X"),
    ]
    for name in names:
        (bed.root / name).write_text(text_of(ONE))
    await bed.catch_up()
    assert bed.folder.catalog.services() == {MARKER}
    assert bed.error == ""


async def test_a_pipe_is_never_opened(bed: FolderBed) -> None:
    path = bed.root / "cart.yaml"
    os.mkfifo(path)
    (bed.root / "folder.yaml").mkdir()
    await bed.catch_up()
    with pytest.raises(OSError, match=os.strerror(errno.ENXIO)):  # Nobody reads.
        os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    assert bed.error == ""
    path.unlink()
    bed.write("cart.yaml", ONE)
    await bed.has(ONE)


async def test_a_name_that_is_no_text_can_be_shown(bed: FolderBed) -> None:
    path = bed.root / os.fsdecode(b"\xff.yaml")
    path.write_text("{")
    await bed.until(lambda: bed.error)
    assert bed.error.encode()
    path.write_text(text_of(ONE))
    await bed.has(ONE)


# ---- objects in several places -----------------------------------------------------------------


async def test_of_two_files_with_one_object_the_first_counts(bed: FolderBed) -> None:
    first = bed.write("a.yaml", ONE)
    await bed.has(ONE)
    second = bed.write("b.yaml", TWO)
    await bed.until(lambda: bed.error)
    assert bed.addresses() == [ONE]
    for part in ("EndpointSlice/shop/cart-aa1", str(first), str(second), "; "):
        assert part in bed.error
    first.unlink()
    await bed.has(TWO)
    assert bed.error == ""
    assert is_never_empty(bed)
    bed.write("a.yaml", THREE)
    await bed.has(THREE)
    (bed.root / "a.yaml").write_text(text_of(ONE, service="other"))
    await bed.has(TWO)
    second.unlink()
    await bed.has()


async def test_of_one_object_twice_in_a_file_the_last_counts(bed: FolderBed) -> None:
    (bed.root / "cart.yaml").write_text(f"{text_of(ONE)}---\n{text_of(TWO)}")
    await bed.has(TWO)
    assert "cart.yaml:12: EndpointSlice/shop/cart-aa1 for the second time" in bed.error
    bed.write("cart.yaml", TWO)
    await bed.until(lambda: not bed.error)


async def test_kinds_of_others_are_not_in_the_way(bed: FolderBed) -> None:
    plain = "apiVersion: v1\nkind: Service\nmetadata: {name: cart, namespace: shop}\n"
    knative = plain.replace("v1", "serving.knative.dev/v1")
    (bed.root / "a.yaml").write_text(knative)
    (bed.root / "b.yaml").write_text(
        f"{knative}---\n{plain}---\nkind: Widget\nmetadata: {{name: x}}\n"
    )
    await bed.until(lambda: CART in bed.folder.catalog.services())
    await bed.catch_up()
    assert bed.error == ""


# ---- folders and links -------------------------------------------------------------------------


async def test_a_new_folder_is_read_with_its_files(bed: FolderBed) -> None:
    bed.write("one/two/three/cart.yaml", ONE)
    await bed.has(ONE)
    bed.write("one/two/three/cart.yaml", TWO)
    await bed.has(TWO)
    bed.write("one/two/four/ledger.yaml", THREE)
    await bed.catch_up()
    assert "one/two/four/ledger.yaml" in bed.error, "both hold the same object"


async def test_a_folder_moved_in_and_out_counts(bed: FolderBed, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "cart.yaml").write_text(text_of(ONE))
    outside.rename(bed.root / "inside")
    await bed.has(ONE)
    (bed.root / "inside" / "deep" / "cart.yaml").write_text(text_of(TWO))
    await bed.has(TWO)
    (bed.root / "inside").rename(outside)
    await bed.has()
    (outside / "deep" / "cart.yaml").write_text(text_of(THREE))
    await bed.catch_up()
    assert bed.addresses() == []


async def test_a_deleted_folder_removes_what_its_files_held(bed: FolderBed) -> None:
    bed.write("inner/deep/cart.yaml", ONE)
    await bed.has(ONE)
    shutil.rmtree(bed.root / "inner")
    await bed.has()
    assert bed.error == ""
    bed.write("inner/deep/cart.yaml", TWO)
    await bed.has(TWO)


async def test_a_volume_that_kubernetes_swaps_is_followed(bed: FolderBed) -> None:
    def mount(version: str, address: str) -> None:
        (bed.root / version).mkdir()
        (bed.root / version / "cart.yaml").write_text(text_of(address))
        (bed.root / "..data_tmp").symlink_to(version)
        (bed.root / "..data_tmp").rename(bed.root / "..data")

    mount("..2026_01", ONE)
    (bed.root / "cart.yaml").symlink_to("..data/cart.yaml")
    await bed.has(ONE)
    mount("..2026_02", TWO)
    shutil.rmtree(bed.root / "..2026_01")
    await bed.has(TWO)
    assert is_never_empty(bed)
    (bed.root / "cart.yaml").unlink()
    await bed.has()


async def test_a_replaced_link_counts(bed: FolderBed, tmp_path: Path) -> None:
    for name, address in (("one", ONE), ("two", TWO)):
        (tmp_path / name).write_text(text_of(address))
    (bed.root / "cart.yaml").symlink_to(tmp_path / "one")
    await bed.has(ONE)
    (bed.root / "fresh").symlink_to(tmp_path / "two")
    (bed.root / "fresh").rename(bed.root / "cart.yaml")
    await bed.has(TWO)
    (tmp_path / "two").unlink()
    (bed.root / "cart.yaml").unlink()
    (bed.root / "cart.yaml").symlink_to(tmp_path / "nothing")
    await bed.has()
    assert bed.error == ""


# ---- the folder itself -------------------------------------------------------------------------


async def test_a_missing_folder_is_shown_and_waited_for(tmp_path: Path) -> None:
    clock = FakeClock()
    root = tmp_path / "later" / "source"
    async with following(root, clock, synced=False) as bed:
        await bed.until(lambda: "does not exist; create it" in bed.error)
        assert not bed.folder.synced.is_set()
        bed.write("cart.yaml", ONE)
        await bed.until(lambda: clock.sleepers)
        clock.advance(1)
        await bed.has(ONE)
        await bed.until(bed.folder.synced.is_set)
        assert bed.error == ""


async def test_a_file_in_its_place_is_shown(tmp_path: Path) -> None:
    clock = FakeClock()
    root = tmp_path / "source"
    root.write_text(text_of(ONE))
    async with following(root, clock, synced=False) as bed:
        await bed.until(lambda: "is not a folder" in bed.error)
        root.unlink()
        bed.write("cart.yaml", ONE)
        await bed.until(lambda: clock.sleepers)
        clock.advance(1)
        await bed.has(ONE)


async def test_a_folder_deleted_and_made_again_is_followed_again(bed: FolderBed) -> None:
    bed.write("inner/cart.yaml", ONE)
    await bed.has(ONE)
    for address in (TWO, THREE):
        shutil.rmtree(bed.root)
        await bed.has()
        await bed.until(lambda: "does not exist" in bed.error)
        assert bed.folder.synced.is_set()
        bed.write("inner/cart.yaml", address)
        await bed.has(address)
        assert bed.error == ""


async def test_a_folder_exchanged_under_its_name_is_followed(tmp_path: Path) -> None:
    for version, address in (("one", ONE), ("two", TWO)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "cart.yaml").write_text(text_of(address))
    (tmp_path / "current").symlink_to("one")
    async with following(tmp_path / "current") as bed:
        assert bed.addresses() == [ONE]
        (tmp_path / "fresh").symlink_to("two")
        (tmp_path / "fresh").rename(tmp_path / "current")
        await bed.has(TWO)
        (tmp_path / "two" / "cart.yaml").write_text(text_of(THREE))
        await bed.has(THREE)
        assert is_never_empty(bed)


async def test_a_folder_may_be_named_relative_to_here(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    async with following(Path()) as bed:
        bed.write("cart.yaml", ONE)
        await bed.has(ONE)


# ---- looking again -----------------------------------------------------------------------------


async def test_everything_is_looked_at_again_in_any_case(root: Path, tmp_path: Path) -> None:
    clock = FakeClock()
    outside = tmp_path / "outside"
    outside.write_text(text_of(ONE))
    (root / "cart.yaml").symlink_to(outside)
    async with following(root, clock) as bed:
        outside.write_text(text_of(TWO))  # No event of the folder tells of this.
        await bed.until(lambda: clock.next_wake == RESCAN_SECONDS)
        clock.advance(RESCAN_SECONDS)
        await bed.has(TWO)
