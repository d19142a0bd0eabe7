"""Clusters without kubelets: real control planes, and a stand-in that marks every pod as running.

That is enough for every spec that executes nothing in a pod.  Pods get addresses nobody answers on.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from tests.e2e.kube import build
from tests.e2e.kube.api import Api, ApiError, Object
from tests.e2e.kube.control_plane import ControlPlane
from tests.e2e.kube.crds import multicluster_crds
from tests.e2e.multicluster import apply_crds
from tests.e2e.objects import NODE, NODES

PODS = "/api/v1/pods"
MORE_CONTROLLERS = ("deployment-controller", "replicaset-controller", "statefulset-controller")


@asynccontextmanager
async def bare_clusters(
    count: int, folder: Path, *, dual: bool
) -> AsyncIterator[dict[str, ControlPlane]]:
    """Start ``c1`` ... ``cN`` with the API's CRDs; all of them are ended on leaving."""
    programs, crds = build.ensure(), multicluster_crds()
    made = {
        f"c{number}": ControlPlane(
            f"c{number}",
            number,
            programs,
            folder / f"c{number}",
            dual=dual,
            more_controllers=MORE_CONTROLLERS,
        )
        for number in range(1, count + 1)
    }
    async with AsyncExitStack() as stack:
        for plane in made.values():
            stack.callback(shutil.rmtree, plane.folder / "etcd", ignore_errors=True)
        await asyncio.gather(*(stack.enter_async_context(plane) for plane in made.values()))
        for number, plane in enumerate(made.values(), 1):
            await apply_crds(plane, crds)
            await plane.admin.create(NODES, {"metadata": {"name": NODE}})
            stand_in = asyncio.create_task(stand_in_for_kubelet(plane.admin, number, dual=dual))
            stack.push_async_callback(_ended, stand_in)
        yield made


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def stand_in_for_kubelet(api: Api, cluster: int, *, dual: bool) -> None:
    """Bind every pod and say that it runs; let a pod that is to go, go.  For ever."""
    addresses = _addresses(cluster, dual=dual)
    seen: set[tuple[str, bool]] = set()
    async for pods in api.states(PODS):
        for pod in pods:
            going = "deletionTimestamp" in pod["metadata"]
            mark = pod["metadata"]["uid"], going
            if mark in seen:
                continue
            seen.add(mark)
            # The pod or its namespace may just have gone.
            with suppress(ApiError):
                await _serve(api, pod, [] if going else next(addresses))


async def _serve(api: Api, pod: Object, addresses: list[str]) -> None:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    if not addresses:
        await api.delete(f"{path}?gracePeriodSeconds=0")
        return
    if "nodeName" not in pod["spec"]:
        target = {"kind": "Node", "name": NODE}
        await api.create(f"{path}/binding", {"metadata": {"name": name}, "target": target})
    conditions = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    status = {
        "phase": "Running",
        "podIP": addresses[0],
        "podIPs": [{"ip": address} for address in addresses],
        "conditions": [{"type": each, "status": "True"} for each in conditions],
    }
    await api.patch(f"{path}/status", {"status": status})


def _addresses(cluster: int, *, dual: bool) -> Iterator[list[str]]:
    for number in itertools.count(256):
        four = f"10.{100 + cluster}.{number // 256 % 256}.{number % 256}"
        yield [four, f"fd00:{100 + cluster}::{number:x}"] if dual else [four]
