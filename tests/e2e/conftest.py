"""Fixtures of the end-to-end tests: control planes for the whole run, and the name of a test.

``REPLICATOR_E2E_KUBE=1.34.4`` runs everything on another Kubernetes release (built at first use).
When a test fails, the last lines of every program's log are part of its report; the whole logs
stay in the run's temporary folder, which the report names.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator, Generator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from .agents import ACCOUNT, Mesh
from .kube import build
from .kube.control_plane import ControlPlane
from .kube.crds import multicluster_crds
from .kube.processes import tail
from .multicluster import RBAC as MULTICLUSTER_RBAC
from .multicluster import MulticlusterMesh, apply_crds
from .objects import NAMESPACE, NODE, NODES

RBAC = Path(__file__).with_name("kube") / "rbac.yaml"
CLUSTERS = ("a", "b", "c")
MULTICLUSTER = {"east": True, "west": True, "north": False}
"""Clusters of the Multi-Cluster Services tests, and whether they have IPv6 beside IPv4."""
LOGS: pytest.StashKey[Path] = pytest.StashKey()

Planes = dict[str, ControlPlane]


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Folder of this run, with all logs."""
    folder = tmp_path_factory.mktemp("e2e")
    request.config.stash[LOGS] = folder
    return folder


@pytest.fixture(scope="session")
def programs() -> build.Programs:
    """Return the real Kubernetes programs, built if they are not."""
    version = os.environ.get("REPLICATOR_E2E_KUBE") or build.DEFAULT_VERSION
    try:
        return build.ensure(version)
    except build.BuildError as error:
        pytest.fail(f"cannot build Kubernetes {version}: {error}", pytrace=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def planes(programs: build.Programs, run_folder: Path) -> AsyncIterator[Planes]:
    """Three control planes, each with a node and the namespace ``shop``."""
    made = {
        name: ControlPlane(name, index, programs, run_folder / name)
        for index, name in enumerate(CLUSTERS)
    }
    async with AsyncExitStack() as stack:
        entering = [stack.enter_async_context(plane) for plane in made.values()]
        await asyncio.gather(*entering)
        for plane in made.values():
            await plane.admin.create(NODES, {"metadata": {"name": NODE}})
            await plane.create_namespace(NAMESPACE)
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def agent_account(planes: Planes) -> str:
    """Create the agent's service account and rights everywhere; its namespace/name."""
    await asyncio.gather(*(plane.create_from(RBAC) for plane in planes.values()))
    return "/".join(ACCOUNT)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running_mesh(planes: Planes, agent_account: str, run_folder: Path) -> AsyncIterator[Mesh]:
    """Return an agent for each control plane; for ``mesh`` only."""
    assert agent_account == "/".join(ACCOUNT)
    async with Mesh(planes, run_folder / "agents") as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def mesh(running_mesh: Mesh) -> Mesh:
    """Return the agents, all of them running and ready whatever the test before left."""
    await running_mesh.start_all()
    return running_mesh


@pytest.fixture(scope="session")
def crds() -> tuple[Path, ...]:
    """Return the files of the Multi-Cluster Services API's CRDs."""
    try:
        return multicluster_crds()
    except build.BuildError as error:
        pytest.fail(f"cannot get the CRDs: {error}", pytrace=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def multicluster_planes(
    programs: build.Programs, crds: tuple[Path, ...], run_folder: Path
) -> AsyncIterator[Planes]:
    """Three control planes with the CRDs, the agent's account and the namespace ``shop``."""
    made = {
        name: ControlPlane(name, len(CLUSTERS) + index, programs, run_folder / name, dual=dual)
        for index, (name, dual) in enumerate(MULTICLUSTER.items())
    }
    async with AsyncExitStack() as stack:
        await asyncio.gather(*(stack.enter_async_context(plane) for plane in made.values()))
        for plane in made.values():
            await plane.create_namespace(NAMESPACE)
            await plane.create_from(MULTICLUSTER_RBAC)
            await apply_crds(plane, crds)
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running_multicluster(
    multicluster_planes: Planes, run_folder: Path
) -> AsyncIterator[MulticlusterMesh]:
    """Return an agent in mode ``mcs`` for each of them; for ``mcs`` only."""
    async with MulticlusterMesh(multicluster_planes, run_folder / "agents-mcs") as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def mcs(running_multicluster: MulticlusterMesh) -> MulticlusterMesh:
    """Return the agents in mode ``mcs``, all of them running and ready."""
    await running_multicluster.start_all()
    return running_multicluster


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Name of a Service that no other test uses; readable, and short enough for a label."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    digest = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:6]
    return f"{words[:40].strip('-')}-{digest}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the ends of all logs to the report of a failed test."""
    report = yield
    folder = item.config.stash.get(LOGS, None)
    if report.failed and folder is not None:
        # The agents come last, where a reader looks first.
        logs = sorted(folder.glob("*/logs/*.log")) + sorted(folder.glob("agents*/*/logs/*.log"))
        ends = [tail(log) for log in logs]
        report.sections.append((f"logs below {folder}", "\n".join(ends)))
    return report
