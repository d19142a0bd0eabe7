"""Folders as a cluster: what is written where, what is left alone, what is repaired."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from clusters.directory import DirectoryCluster
from clusters.errors import WriteError
from clusters.model import ChangeOp, Endpoint, LocalService, Port, ServiceKey, SliceChange
from clusters.settings import ExportMode, NamespaceFilter
from clusters.slices import SliceSettings, plan
from tests.clusters.folder_bed import text_of, unprivileged
from tests.contract.directory_harness import DirectoryHarness
from tests.support.clock import FakeClock

CART = ServiceKey("shop", "cart")
HTTP = (Port("http", 8080),)
ONE, TWO = "10.40.1.1", "10.40.1.2"


class Bed(DirectoryHarness):
    """Two folders, a cluster over them, and what a planner would make of it."""

    def __init__(self, folder: Path) -> None:
        self.source, self.target = folder / "source", folder / "target"
        self.source.mkdir()
        super().__init__(self.source, self.target)

    def planned(self, *addresses: str, key: ServiceKey = CART) -> list[SliceChange]:
        remote = {"mesa": [Endpoint(one, HTTP) for one in addresses]} if addresses else {}
        observed = self.cluster.owned(key)
        return plan(key, remote, observed, settings=SliceSettings(), deletable=lambda _: True)

    async def write(self, *addresses: str) -> Path:
        """Make the target hold exactly that, and return the file."""
        for change in self.planned(*addresses):
            await self.cluster.apply(change)
        assert self.planned(*addresses) == []
        (path,) = self.target.rglob("*.yaml")
        return path

    def written(self) -> list[str]:
        return [
            address
            for manifest in self.cluster.owned(CART)
            for endpoint in manifest["endpoints"]
            for address in endpoint["addresses"]
        ]

    def error(self, name: str = "target") -> str:
        (found,) = (one for one in self.cluster.health().resources if one.name == name)
        return found.error or ""


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[Bed]:
    made = Bed(tmp_path)
    async with made.running():
        await made.cluster.wait_synced()
        yield made


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that anybody may reach."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def over(
    source: Path | None, target: Path | None, clock: FakeClock | None = None
) -> DirectoryHarness:
    return DirectoryHarness(source, target, clock)


# ---- the target --------------------------------------------------------------------------------


async def test_one_readable_file_an_object(bed: Bed) -> None:
    path = await bed.write(ONE)
    (manifest,) = bed.cluster.owned(CART)
    assert path == bed.target / "shop" / f"{manifest['metadata']['name']}.yaml"
    assert yaml.safe_load(path.read_text()) == manifest
    assert path.stat().st_mode & 0o444 == 0o444
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


async def test_an_update_replaces_the_file(bed: Bed) -> None:
    path = await bed.write(ONE)
    with path.open() as before:
        assert await bed.write(ONE, TWO) == path
        assert TWO not in before.read(), "a reader has the whole old file"
    assert TWO in path.read_text()


async def test_the_last_delete_takes_the_folder_along(bed: Bed) -> None:
    path = await bed.write(ONE)
    (change,) = bed.planned()
    await bed.cluster.apply(change)
    assert not path.parent.exists()
    assert bed.target.exists()


async def test_a_delete_leaves_a_folder_with_others_files(bed: Bed) -> None:
    path = await bed.write(ONE)
    other = path.with_name("README.md")
    other.write_text("mine")
    (change,) = bed.planned()
    await bed.cluster.apply(change)
    assert list(path.parent.iterdir()) == [other]


@pytest.mark.parametrize("damage", ["garbage", "emptied", "other object", "other place", "binary"])
async def test_damage_is_announced_and_repaired(bed: Bed, damage: str) -> None:
    path = await bed.write(ONE)
    bed.owned_keys.clear()
    if damage == "other place":
        path.rename(path.with_name("elsewhere.yaml"))
    elif damage == "other object":
        path.write_text(path.read_text().replace("namespace: shop", "namespace: bank"))
    else:
        path.write_bytes({"garbage": b"kind: [", "emptied": b"", "binary": b"\0\xff"}[damage])
    await bed.until(lambda: CART in bed.owned_keys)
    assert bed.cluster.owned(CART) == ()
    assert bool(bed.error()) == (damage in {"garbage", "binary"})
    for change in bed.planned(ONE):
        await bed.cluster.apply(change)
    assert bed.planned(ONE) == []
    assert bed.written() == [ONE]
    assert bed.error() == ""
    assert bed.cluster.health().counters == {"source_file_errors": 0}


async def test_a_damaged_file_of_ours_can_be_deleted(bed: Bed) -> None:
    path = await bed.write(ONE)
    (change,) = bed.planned()
    path.write_text("kind: [")
    await bed.cluster.apply(change)
    assert not path.exists()


async def test_a_half_edited_file_is_not_repaired_too_early(bed: Bed) -> None:
    path = await bed.write(ONE)
    bed.owned_keys.clear()
    with path.open("w") as file:
        file.write("kind: [")
        file.flush()
        (bed.source / "marker.yaml").write_text(text_of("10.20.1.1"))
        await bed.until(lambda: CART in bed.local_keys)
        assert bed.written() == [ONE]
    await bed.until(lambda: CART in bed.owned_keys)


async def test_the_whole_target_deleted_is_written_anew(bed: Bed) -> None:
    await bed.write(ONE)
    bed.owned_keys.clear()
    shutil.rmtree(bed.target)
    await bed.until(lambda: CART in bed.owned_keys)
    assert bed.cluster.owned(CART) == ()
    await bed.write(ONE)
    path = await bed.write(ONE, TWO)
    bed.owned_keys.clear()
    await bed.until(bed.target.exists)
    path.unlink()
    await bed.until(lambda: CART in bed.owned_keys)


async def test_what_was_written_before_is_found_at_the_start(bed: Bed) -> None:
    await bed.write(ONE)
    later = over(bed.source, bed.target)
    async with later.running():
        await later.cluster.wait_synced()
        assert later.cluster.owned(CART) == bed.cluster.owned(CART)


async def test_what_a_killed_agent_left_half_written_is_swept(tmp_path: Path) -> None:
    (tmp_path / "target" / "shop").mkdir(parents=True)
    left = tmp_path / "target" / "shop" / ".crdt-replicator-1234.new"
    mine = tmp_path / "target" / "shop" / ".mine.new"
    for path in (left, mine):
        path.write_text("half")
    harness = over(None, tmp_path / "target")
    async with harness.running():
        await harness.cluster.wait_synced()
        assert not left.exists()
        assert mine.exists()


async def test_others_files_in_the_target_are_no_matter(bed: Bed) -> None:
    others = {
        bed.target / "broken.yaml": "kind: [",
        bed.target / "shop" / "broken.yaml": "kind: [",
        bed.target / "shop" / "theirs.yaml": text_of("10.20.1.1", name="theirs"),
        bed.target / "shop" / "deep" / "x.yaml": text_of("10.20.1.1"),
    }
    for path, text in others.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for wanted in ([ONE], [TWO], []):
        for change in bed.planned(*wanted):
            await bed.cluster.apply(change)
        assert bed.written() == wanted
    assert {path: path.read_text() for path in others} == others
    assert bed.error() == ""
    assert bed.cluster.services() == frozenset()


@pytest.mark.parametrize("content", [text_of("10.20.1.1"), "kind: [", "", None])
async def test_anothers_file_in_the_place_of_ours_is_left_alone(
    bed: Bed, content: str | None
) -> None:
    (change,) = bed.planned(ONE)
    metadata = {**change.manifest["metadata"], "name": "cart-aa1"}
    manifest = {**change.manifest, "metadata": metadata}
    path = bed.target / "shop" / "cart-aa1.yaml"
    path.parent.mkdir()
    if content is None:
        os.mkfifo(path)
    else:
        path.write_text(content)
    with pytest.raises(WriteError, match="exists and is not ours; move it away") as caught:
        await bed.cluster.apply(SliceChange(ChangeOp.CREATE, manifest))
    assert (caught.value.code, caught.value.retryable) == ("name_taken", True)
    await bed.cluster.apply(SliceChange(ChangeOp.DELETE, manifest))
    assert path.exists()
    assert content is None or path.read_text() == content

    path.unlink()
    await bed.cluster.apply(SliceChange(ChangeOp.CREATE, manifest))
    assert bed.written() == [ONE]


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        ("shop", "a" * 251),
        ("shop", "../../escape"),
        ("..", "cart"),
        ("shop/../..", "cart"),
        ("shop", ""),
        ("shop", ".hidden"),
        ("shop", "ca\0rt"),
        ("Shop", "\u202ecart"),
    ],
)
async def test_names_no_file_can_have_are_refused(bed: Bed, namespace: str, name: str) -> None:
    metadata = {"namespace": namespace, "name": name}
    manifest = {"kind": "EndpointSlice", "metadata": metadata, "endpoints": []}
    with pytest.raises(WriteError) as caught:
        await bed.cluster.apply(SliceChange(ChangeOp.CREATE, manifest))
    assert (caught.value.code, caught.value.retryable) == ("bad_name", False)
    assert str(caught.value).isascii()
    assert list(bed.target.rglob("*")) == []


async def test_what_cannot_be_written_is_tried_again(bed: Bed) -> None:
    (change,) = bed.planned(ONE)
    blocking = bed.target / "shop"
    blocking.write_text("a file where a folder should be")
    with pytest.raises(WriteError, match="make room on the disk, or the folder") as caught:
        await bed.cluster.apply(change)
    assert (caught.value.code, caught.value.retryable) == ("target_unwritable", True)
    blocking.unlink()
    await bed.write(ONE)


async def test_a_read_only_target_is_told(open_folder: Path) -> None:
    target = open_folder / "target"
    (target / "shop").mkdir(parents=True)
    harness = over(None, target)
    with unprivileged():
        if os.access(target, os.W_OK, effective_ids=True):
            target.chmod(0o555)
            (target / "shop").chmod(0o555)
        async with harness.running():
            await harness.cluster.wait_synced()
            (change,) = Bed.planned(harness, ONE)  # type: ignore[arg-type]
            with pytest.raises(WriteError, match="Permission denied") as caught:
                await harness.cluster.apply(change)
    assert caught.value.retryable
    assert list((target / "shop").iterdir()) == []


async def test_a_file_that_cannot_be_read_is_not_overwritten(bed: Bed) -> None:
    path = await bed.write(ONE)
    path.unlink()
    path.symlink_to(path.name)
    with pytest.raises(WriteError, match="cannot be told whose it is") as caught:
        await bed.cluster.apply(SliceChange(ChangeOp.UPDATE, bed.cluster.owned(CART)[0]))
    assert caught.value.retryable
    assert path.is_symlink()


async def test_a_file_in_place_of_the_target_is_shown(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("")
    clock = FakeClock()
    harness = over(None, tmp_path / "target", clock)
    async with harness.running():
        await harness.until(lambda: harness.cluster.health().resources[0].error)
        (resource,) = harness.cluster.health().resources
        assert "is not a folder; put one in its place" in str(resource.error)
        assert not resource.synced
        (change,) = Bed.planned(harness, ONE)  # type: ignore[arg-type]
        with pytest.raises(WriteError):
            await harness.cluster.apply(change)
        (tmp_path / "target").unlink()
        await harness.until(lambda: clock.sleepers)
        clock.advance(1)
        await asyncio.wait_for(harness.cluster.wait_synced(), 10)
        await harness.cluster.apply(change)
        assert harness.cluster.owned_services() == {CART}


# ---- source and target together ----------------------------------------------------------------


@pytest.mark.parametrize("layout", ["target inside", "source inside", "the same"])
async def test_overlapping_folders_never_export_what_was_imported(
    tmp_path: Path, layout: str
) -> None:
    outer = tmp_path / "outer"
    inner = outer / "inner"
    inner.mkdir(parents=True)
    source, target = {
        "target inside": (outer, inner),
        "source inside": (inner, outer),
        "the same": (outer, outer),
    }[layout]
    harness = over(source, target)
    async with harness.running():
        await harness.cluster.wait_synced()
        for change in Bed.planned(harness, ONE):  # type: ignore[arg-type]
            await harness.cluster.apply(change)
        (source / "ledger.yaml").write_text(text_of("10.20.1.1", service="ledger"))
        ledger = ServiceKey("shop", "ledger")
        await harness.until(lambda: harness.cluster.local(ledger).endpoints)
        assert harness.cluster.local(CART) == LocalService(CART)
        assert harness.cluster.services() == {ledger}
        assert harness.cluster.owned_services() == {CART}
        assert not [one for one in harness.cluster.health().resources if one.error]


async def test_a_source_alone_takes_no_writes(tmp_path: Path) -> None:
    harness = over(tmp_path, None)
    change = SliceChange(ChangeOp.CREATE, {"metadata": {"namespace": "shop", "name": "x"}})
    with pytest.raises(WriteError, match="no target folder; set target") as caught:
        await harness.cluster.apply(change)
    assert not caught.value.retryable
    assert harness.cluster.owned(CART) == ()
    assert harness.cluster.owned_services() == frozenset()


async def test_a_target_alone_says_nothing_of_its_own(tmp_path: Path) -> None:
    harness = over(None, tmp_path / "target")
    async with harness.running():
        await harness.cluster.wait_synced()
        assert harness.cluster.services() == frozenset()
        assert harness.cluster.local(CART) == LocalService(CART)
        assert [one.name for one in harness.cluster.health().resources] == ["target"]


def test_no_folder_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a source or a target"):
        over(None, None)


async def test_a_missing_source_is_waited_for_and_not_made(tmp_path: Path) -> None:
    clock = FakeClock()
    source = tmp_path / "source"
    harness = over(source, tmp_path / "target", clock)
    async with harness.running():
        await harness.until(lambda: harness.cluster.health().resources[0].error)
        waiting = asyncio.ensure_future(harness.cluster.wait_synced())
        await harness.until(lambda: harness.cluster.health().resources[1].synced)
        assert not harness.cluster.health().synced
        assert not waiting.done()
        assert not source.exists()
        source.mkdir()
        clock.advance(1)
        await asyncio.wait_for(waiting, 10)
        assert harness.cluster.health().synced


async def test_errors_in_the_source_are_counted(bed: Bed) -> None:
    (bed.source / "x.yaml").write_text("kind: [")
    await bed.until(lambda: bed.error("source"))
    assert bed.cluster.health().counters == {"source_file_errors": 1}
    assert bed.cluster.health().synced
    (bed.source / "cart.yaml").write_text(text_of("10.20.1.1"))
    await bed.until(lambda: CART in bed.local_keys)
    ages = [resource.last_event_age for resource in bed.cluster.health().resources]
    assert ages[0] is not None
    assert ages[0] >= 0


async def test_the_export_mode_counts(tmp_path: Path) -> None:
    (tmp_path / "cart.yaml").write_text(text_of("10.20.1.1"))
    cluster = DirectoryCluster(
        cluster="fjord",
        source=tmp_path,
        target=None,
        export=ExportMode.SERVICE_EXPORT,
        namespaces=NamespaceFilter(exclude=("bank",)),
        clock=FakeClock(),
    )
    keys: list[Any] = []
    task = asyncio.create_task(cluster.run(keys.append, keys.append))
    await asyncio.wait_for(cluster.wait_synced(), 10)
    assert cluster.local(CART).export is None
    assert keys == [CART]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
