"""Starts whole clusters and ends them: one process a node, which takes all of it along."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.e2e.kube import build
from tests.e2e.kube.api import Api, ApiError, Object, Objects
from tests.e2e.kube.processes import Program

from . import image, network, programs
from .files import Node

INIT = Path(__file__).with_name("init.py")
CGROUPS = Path("/sys/fs/cgroup")
READY_SECONDS = 180.0
ENDING_TRIES, ENDING_SECONDS = 50, 0.1
NAMESPACES = ("--mount", "--pid", "--fork", "--ipc", "--uts", "--mount-proc", "--kill-child")
"""What a node has of its own beside its network."""


@asynccontextmanager
async def whole_clusters(count: int, folder: Path, *, dual: bool) -> AsyncIterator[dict[str, Path]]:
    """Have clusters ``c1`` ... ``cN`` with a ready node each; yields administrators' kubeconfigs.

    BuildError without the rights or the programs for it.
    """
    if os.geteuid() != 0:
        raise build.BuildError("nodes need root: they have network namespaces and containers")
    if not 1 <= count <= network.MOST_CLUSTERS:
        raise build.BuildError(f"1 to {network.MOST_CLUSTERS} clusters, not {count}")
    built = programs.ensure()
    archive = image.ensure(build.cache_folder() / "node-image")
    nodes = [
        Node(f"c{index}", network.families(index, dual=dual), folder / f"c{index}", built, archive)
        for index in range(1, count + 1)
    ]
    async with AsyncExitStack() as stack:
        stack.enter_context(network.joined(count, dual=dual))
        await asyncio.gather(*(_start(node, stack) for node in nodes))
        yield {node.name: node.kubeconfig for node in nodes}


async def _start(node: Node, stack: AsyncExitStack) -> None:
    keys = node.write()
    stack.push_async_callback(_clean, node)
    _cgroups(node)
    admin = await stack.enter_async_context(Api(node.server, keys.admin_token, keys.ca))
    entered = [f"--net=/run/netns/{network.namespace(node.addresses[0].index)}"]
    program = Program(
        f"node {node.name}",
        ["nsenter", *entered, "unshare", *NAMESPACES, sys.executable, str(INIT), str(node.spec)],
        log=node.folder / "logs" / "init.log",
        ready=lambda: _is_ready(admin, node),
    )
    stack.push_async_callback(program.kill)
    await program.start(READY_SECONDS)
    for path, item in _dns(node):
        await admin.create(path, item)


async def _is_ready(admin: Api, node: Node) -> bool:
    try:
        found = await admin.get(f"/api/v1/nodes/{node.name}")
    except ApiError:
        return False
    ready = [one["status"] for one in found["status"]["conditions"] if one["type"] == "Ready"]
    return ready == ["True"] and node.imported.exists()


def _dns(node: Node) -> list[tuple[str, Object]]:
    """The Service by which pods find the DNS, which runs beside the kubelet and not as a pod."""
    ports: Objects = [
        {"name": name, "port": 53, "protocol": protocol}
        for name, protocol in (("dns", "UDP"), ("dns-tcp", "TCP"))
    ]
    one = node.addresses[0]
    service = {
        "metadata": {"name": "kube-dns"},
        "spec": {"clusterIP": one.dns, "ports": ports},
    }
    slice_of_it = {
        "metadata": {
            "name": "kube-dns",
            "labels": {
                "kubernetes.io/service-name": "kube-dns",
                "endpointslice.kubernetes.io/managed-by": "conformance",
            },
        },
        "addressType": "IPv4",
        "ports": ports,
        "endpoints": [{"addresses": [one.node], "conditions": {"ready": True}}],
    }
    return [
        ("/api/v1/namespaces/kube-system/services", service),
        ("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", slice_of_it),
    ]


def _hierarchies() -> list[Path]:
    """Where control groups are made: one place, or one for each controller."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [path for path in sorted(CGROUPS.iterdir()) if (path / "tasks").exists()]


def _cgroups(node: Node) -> None:
    for hierarchy in _hierarchies():
        made = hierarchy / node.cgroup
        made.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            # Of these a new group of the first version has none, and takes no process before.
            if (made / name).exists() and (hierarchy / "tasks").exists():
                (made / name).write_text((hierarchy / name).read_text())


def _groups_of(node: Node) -> list[Path]:
    """Return all that were made for it, here or by containerd where it found a hierarchy more."""
    return [*CGROUPS.glob(node.cgroup), *CGROUPS.glob(f"*/{node.cgroup}")]


async def _clean(node: Node) -> None:
    """Remove control groups, and what containerd unpacked; logs stay."""
    for group in _groups_of(node):
        for _ in range(ENDING_TRIES):
            if _emptied(group):
                break
            await asyncio.sleep(ENDING_SECONDS)  # the kernel is still ending what was in it
    for name in ("containerd", "kubelet", "etcd"):
        shutil.rmtree(node.folder / name, ignore_errors=True)


def _emptied(group: Path) -> bool:
    """Remove a control group with all below it; False while something is still in it."""
    try:
        for path, _, _ in os.walk(group, topdown=False):
            Path(path).rmdir()
    except OSError:
        return False
    return True
