"""Agents and API servers that go away and come back: nothing lost, nothing raised from the dead.

Beside what the tests change there is always a Service that they do not: it must come through with
the same resource versions and without one write, which the API server's audit log attests.
"""

from __future__ import annotations

import asyncio

import pytest

from .agents import Mesh
from .kube.audit import Call
from .objects import SERVICES, SLICES, change, names, offer, readiness, versions

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.asyncio(loop_scope="session"),
    # What a test waits for has its own deadlines, which explain themselves; this one does not.
    pytest.mark.timeout(600, func_only=True),
]


def touched(writes: list[Call]) -> set[str]:
    """Names of the slices that writes were about."""
    return {write.name for write in writes}


async def test_the_second_pass_writes_nothing(mesh: Mesh, name: str) -> None:
    await offer(mesh.planes["a"].admin, name, {"10.1.20.1": True, "10.1.20.2": False})
    await mesh.expect_in_others(name, {"10.1.20.1": True, "10.1.20.2": False}, source="a")
    marks = await mesh.marks()

    # Each agent lists everything anew and looks at every Service again.
    await asyncio.gather(*(agent.restart() for agent in mesh.agents.values()))

    await mesh.flush()
    for cluster in mesh.planes:
        assert await mesh.writes_since(marks, cluster) == []


async def test_a_killed_importer_catches_up_with_what_it_missed(mesh: Mesh, name: str) -> None:
    kept, changed, gone, made = (f"{name}-{what}" for what in ("kept", "changed", "gone", "made"))
    api = mesh.planes["a"].admin
    for each in (kept, changed, gone):
        await offer(api, each, {"10.1.21.1": True})
        await mesh.expect_in_others(each, {"10.1.21.1": True}, source="a")
    marks = await mesh.marks()
    before = versions(await mesh.slices("b", kept))

    await mesh.agents["b"].kill()
    await change(api, changed, {"10.1.21.1": False, "10.1.21.2": True})
    await api.delete(f"{SLICES}/{gone}")
    await offer(api, made, {"10.1.21.3": True})
    await mesh.expect("c", made, {"10.1.21.3": True}, source="a")
    await mesh.expect("c", gone, {}, source="a")
    await mesh.agents["b"].start()

    await mesh.expect_in_others(changed, {"10.1.21.1": False, "10.1.21.2": True}, source="a")
    await mesh.expect_in_others(made, {"10.1.21.3": True}, source="a")
    await mesh.expect_in_others(gone, {}, source="a")
    await mesh.flush()
    assert versions(await mesh.slices("b", kept)) == before
    assert not touched(await mesh.writes_since(marks, "b")) & set(before)
    assert [await mesh.slices(cluster, gone) for cluster in mesh.planes] == [[], [], []]


async def test_a_killed_exporter_tells_what_happened_meanwhile(mesh: Mesh, name: str) -> None:
    kept, changed, gone, made = (f"{name}-{what}" for what in ("kept", "changed", "gone", "made"))
    api = mesh.planes["a"].admin
    for each in (kept, changed, gone):
        await offer(api, each, {"10.1.22.1": True})
        await mesh.expect_in_others(each, {"10.1.22.1": True}, source="a")
    marks = await mesh.marks()
    before = {cluster: versions(await mesh.slices(cluster, kept)) for cluster in ("b", "c")}

    await mesh.agents["a"].kill()
    await change(api, changed, {"10.1.22.2": True})
    await api.delete(f"{SLICES}/{gone}")
    await offer(api, made, {"10.1.22.3": True})
    await mesh.agents["a"].start()

    await mesh.expect_in_others(changed, {"10.1.22.2": True}, source="a")
    await mesh.expect_in_others(made, {"10.1.22.3": True}, source="a")
    await mesh.expect_in_others(gone, {}, source="a")
    await mesh.flush()
    for cluster, unchanged in before.items():
        assert versions(await mesh.slices(cluster, kept)) == unchanged
        assert not touched(await mesh.writes_since(marks, cluster)) & set(unchanged)


async def test_what_was_removed_and_made_again_while_all_slept_is_the_new_one(
    mesh: Mesh, name: str
) -> None:
    api = mesh.planes["a"].admin
    await offer(api, name, {"10.1.23.1": True, "10.1.23.2": True})
    await mesh.expect_in_others(name, {"10.1.23.1": True, "10.1.23.2": True}, source="a")

    await asyncio.gather(*(agent.kill() for agent in mesh.agents.values()))
    await api.delete(f"{SLICES}/{name}")
    await api.delete(f"{SERVICES}/{name}")
    await offer(api, name, {"10.1.23.2": False, "10.1.23.3": True})
    await mesh.start_all()

    await mesh.expect_in_others(name, {"10.1.23.2": False, "10.1.23.3": True}, source="a")
    await mesh.flush()
    for cluster in ("b", "c"):
        found = readiness(await mesh.slices(cluster, name))
        assert found == {"10.1.23.2": False, "10.1.23.3": True}


async def test_a_stopped_agent_takes_nothing_back(mesh: Mesh, name: str) -> None:
    await offer(mesh.planes["a"].admin, name, {"10.1.24.1": True})
    found = await mesh.expect_in_others(name, {"10.1.24.1": True}, source="a")
    marks = await mesh.marks()

    assert await mesh.agents["a"].stop() == 0

    await offer(mesh.planes["b"].admin, name, {"10.2.24.1": True})
    await mesh.expect("c", name, {"10.2.24.1": True}, source="b")
    for cluster in ("b", "c"):
        assert versions(await mesh.slices(cluster, name, "a")) == versions(found[cluster])
        written = touched(await mesh.writes_since(marks, cluster))
        assert not written & names(found[cluster])


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_agents_outlive_a_restart_of_their_api_server(
    mesh: Mesh, name: str, how: str
) -> None:
    kept, changed = f"{name}-kept", f"{name}-changed"
    exporter, importer = mesh.planes["a"], mesh.planes["b"]
    for each in (kept, changed):
        await offer(exporter.admin, each, {"10.1.25.1": True})
        await mesh.expect_in_others(each, {"10.1.25.1": True}, source="a")
    await mesh.flush()
    before = versions(await mesh.slices("b", kept))
    pids = [agent.pid for agent in mesh.agents.values()]

    # The importer cannot write when the change arrives, and then the exporter cannot watch.
    kill = how == "killed"
    await (importer.apiserver.kill() if kill else importer.apiserver.stop())
    await change(exporter.admin, changed, {"10.1.25.2": True})
    await mesh.expect("c", changed, {"10.1.25.2": True}, source="a")
    await importer.apiserver.start()
    await mesh.expect("b", changed, {"10.1.25.2": True}, source="a")
    await exporter.apiserver.restart(kill=kill)
    await change(exporter.admin, changed, {"10.1.25.3": True})
    await mesh.expect_in_others(changed, {"10.1.25.3": True}, source="a")

    await mesh.flush()
    assert versions(await mesh.slices("b", kept)) == before
    assert [agent.pid for agent in mesh.agents.values()] == pids
