"""Mode ``mcs`` when agents, CRDs or other people's hands come and go: nothing lost, nothing extra.

What was written and when is taken from the API servers' audit logs.
"""

from __future__ import annotations

import asyncio

import pytest

from .multicluster import (
    Imported,
    MulticlusterMesh,
    apply_crds,
    called,
    imports_in,
    remove_crds,
    services_in,
)
from .objects import SLICES, readiness

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.asyncio(loop_scope="session"),
    # What a test waits for has its own deadlines, which explain themselves; this one does not.
    pytest.mark.timeout(600, func_only=True),
]


def meaning(one: Imported) -> tuple[object, ...]:
    """What consumers go by, without uids and versions."""
    spec, derived = one.service_import["spec"], one.derived["spec"]
    return spec["ports"], spec["type"], derived["ports"], readiness(one.slices)


async def test_the_second_pass_writes_nothing_of_what_imports_are_made_of(
    mcs: MulticlusterMesh, name: str
) -> None:
    await mcs.offer("east", name, {"10.3.20.1": True, "10.3.20.2": False})
    await mcs.offer("west", name, {"10.4.20.1": True})
    await mcs.expect_everywhere(name, {"east", "west"})
    await mcs.expect_export("east", name)
    await mcs.expect_export("west", name)
    marks = await mcs.marks()

    # Each agent lists everything anew and looks at every Service again.
    await asyncio.gather(*(agent.restart() for agent in mcs.agents.values()))

    await mcs.flush()
    for cluster in mcs.planes:
        calls = await mcs.calls_since(marks, cluster)
        assert any(call.verb == "list" and call.resource == "serviceimports" for call in calls)
        assert await mcs.writes_since(marks, cluster) == []


async def test_agents_restarted_twice_while_cut_off_delete_nothing(
    mcs: MulticlusterMesh, name: str
) -> None:
    await mcs.offer("east", name, {"10.3.21.1": True})
    before = (await mcs.expect_everywhere(name, {"east"}))["west"].written
    marks = await mcs.marks()

    await asyncio.gather(*(mcs.agents[other].kill() for other in mcs.others("west")))
    for _ in range(2):
        # Ready means that it has waited in vain for its peers and acts on what it knows.
        await mcs.agents["west"].restart(kill=True)
        own = f"{name}-own-{mcs.agents['west'].pid}"
        await mcs.offer("west", own, {"10.4.21.1": True})
        await mcs.expect_import("west", own, {"west"})
        await mcs.expect_export("west", own)

    deletes = [call for call in await mcs.calls_since(marks, "west") if call.verb == "delete"]
    assert deletes == []
    assert (await mcs.expect_import("west", name, {"east"})).written == before
    await mcs.start_all()
    await mcs.flush()
    assert (await mcs.expect_import("west", name, {"east"})).written == before


async def test_what_others_change_or_delete_is_restored(mcs: MulticlusterMesh, name: str) -> None:
    admin = mcs.planes["west"].admin
    await mcs.offer("east", name, {"10.3.22.1": True})
    wanted = (await mcs.expect_everywhere(name, {"east"}))["west"]
    derived, slice_name = (one["metadata"]["name"] for one in (wanted.derived, wanted.slices[0]))
    edits = (
        (f"{SLICES}/{slice_name}", {"endpoints": []}),
        (f"{SLICES}/{slice_name}", {"metadata": {"labels": None}}),
        (f"{SLICES}/{slice_name}", {"metadata": {"ownerReferences": None}}),
        (f"{services_in()}/{derived}", {"spec": {"selector": {"app": "theirs"}}}),
        (f"{services_in()}/{derived}", {"spec": {"ports": [{"name": "http", "port": 99}]}}),
        (f"{imports_in()}/{name}", {"spec": {"ports": [{"name": "x", "port": 9}]}}),
        (f"{imports_in()}/{name}/status", {"status": {"clusters": [{"cluster": "moon"}]}}),
    )
    for path, edit in edits:
        changed = await admin.patch(path, edit)
        one = await _restored(mcs, name, path, changed["metadata"]["resourceVersion"])
        assert meaning(one) == meaning(wanted)
    for path in (f"{SLICES}/{slice_name}", f"{services_in()}/{derived}", f"{imports_in()}/{name}"):
        uid = (await admin.get(path))["metadata"]["uid"]
        await admin.delete(path)
        one = await _restored(mcs, name, path, uid)
        assert meaning(one) == meaning(wanted)


async def _restored(mcs: MulticlusterMesh, name: str, path: str, mark: str) -> Imported:
    """Watch until the object at ``path`` has neither this uid nor version, and all is finished."""
    collection, _, own = path.removesuffix("/status").rpartition("/")
    await mcs.planes["west"].admin.wait_for(
        collection,
        lambda found: any(
            mark not in (one["metadata"]["uid"], one["metadata"]["resourceVersion"])
            for one in found
        ),
        what=f"{path} is written again",
        query=called(own),
    )
    return await mcs.expect_import("west", name, {"east"})


async def test_crds_may_be_removed_and_applied_again(
    mcs: MulticlusterMesh, name: str, crds: tuple[object, ...]
) -> None:
    west = mcs.planes["west"]
    await mcs.offer("east", name, {"10.3.23.1": True})
    before = await mcs.expect_everywhere(name, {"east"})

    await remove_crds(west)
    await mcs.expect_import("east", name, {"east"})
    await apply_crds(west, crds)

    again = await mcs.expect_import("west", name, {"east"})
    assert meaning(again) == meaning(before["west"])
    assert (
        again.service_import["metadata"]["uid"] != before["west"].service_import["metadata"]["uid"]
    )
    assert (await mcs.expect_import("east", name, {"east"})).written == before["east"].written
