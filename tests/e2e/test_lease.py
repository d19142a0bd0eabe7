"""The Lease of a real API server: what the store says of it, and two agents that share one."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import yaml

from clusters.errors import ClusterUnavailableError, LeaseConflictError
from clusters.kubernetes import KubernetesSettings
from clusters.kubernetes.cluster import KubernetesCluster
from clusters.lease import LeaseClaim
from clusters.settings import ExportMode, NamespaceFilter
from replicator.ops.address import parse_address
from replicator.ops.client import AgentClient
from replicator.system_clock import SystemClock

from .agent_programs import agent_of, change_config, init
from .agents import ACCOUNT
from .conftest import Planes
from .kube.api import Api, ApiError
from .kube.control_plane import ControlPlane
from .kube.ports import free_ports
from .kube.processes import Program
from .objects import change, offer

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.asyncio(loop_scope="session"),
    # What a test waits for has its own deadlines, which explain themselves; this one does not.
    pytest.mark.timeout(600, func_only=True),
]

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{ACCOUNT[0]}/leases"


async def cluster_of(plane: ControlPlane) -> KubernetesCluster:
    """The cluster as an agent's account sees it."""
    return await KubernetesCluster.from_kubeconfig(
        str(await plane.service_account_kubeconfig(*ACCOUNT)),
        None,
        cluster="a",
        export=ExportMode.ALL,
        namespaces=NamespaceFilter(include=("*",), exclude=()),
        clock=SystemClock(),
        rng=random.Random(1),
        settings=KubernetesSettings(),
        environ={},
    )


async def test_a_lease_changes_by_compare_and_swap_only(
    planes: Planes, agent_account: str, name: str
) -> None:
    assert agent_account == "/".join(ACCOUNT)
    cluster = await cluster_of(planes["a"])
    one, other = cluster.lease(ACCOUNT[0], name), cluster.lease(ACCOUNT[0], name)
    assert await one.read() is None
    first = await one.write(LeaseClaim("one", 1, 15.0), None)
    assert await other.read() == first
    with pytest.raises(LeaseConflictError):
        await other.write(LeaseClaim("other", 2, 15.0), None)
    renewed = await one.write(LeaseClaim("one", 1, 15.0), first)
    assert renewed.renewals != first.renewals
    with pytest.raises(LeaseConflictError):
        await other.write(LeaseClaim("other", 2, 15.0), first)
    taken = await other.write(LeaseClaim("other", 2, 15.0), renewed)
    shown = (await planes["a"].admin.get(f"{LEASES}/{name}"))["spec"]
    assert (shown["holderIdentity"], shown["leaseTransitions"]) == ("other", 2)
    assert shown["leaseDurationSeconds"] == 15
    await planes["a"].admin.delete(f"{LEASES}/{name}")
    assert await one.read() is None
    with pytest.raises(LeaseConflictError):
        await other.write(LeaseClaim("other", 2, 15.0), taken)


async def test_what_is_missing_for_a_lease_is_named(
    planes: Planes, agent_account: str, name: str
) -> None:
    assert agent_account == "/".join(ACCOUNT)
    cluster = await cluster_of(planes["a"])
    elsewhere = cluster.lease("kube-system", name)
    for call, verb in ((elsewhere.read, "get"), (lambda: elsewhere.write(CLAIM, None), "create")):
        with pytest.raises(ClusterUnavailableError) as caught:
            await call()
        assert caught.value.code == "api_forbidden"
        assert f"the verb {verb} on leases in the namespace kube-system" in caught.value.cure


CLAIM = LeaseClaim("one", 1, 15.0)


class Pair:
    """Two agents of one cluster and a watcher of another, over one API server."""

    def __init__(self, folder: Path, plane: ControlPlane, lease: str) -> None:
        self.folder, self.plane, self.lease = folder, plane, lease
        self.agents: dict[str, Program] = {}
        self._operators: dict[str, int] = {}

    async def start(self, stack: AsyncExitStack) -> None:
        """Make configurations and start all three."""
        names = ("one", "two", "watcher")
        ports = free_ports(9)
        peers = dict(zip(names, ports[:3], strict=True))
        self._operators = dict(zip(names, ports[3:6], strict=True))
        init(self.folder, {"one": peers["one"], "watcher": peers["watcher"]}, "e2e-lease")
        kubeconfig = str(await self.plane.service_account_kubeconfig(*ACCOUNT))
        for name, health in zip(names, ports[6:], strict=True):
            cluster = "watcher" if name == "watcher" else "one"
            config = self.folder / cluster / f"{name}.yaml"
            config.write_text((self.folder / cluster / "agent.yaml").read_text())
            self._configure(name, config, peers, kubeconfig)
            change_config(
                config,
                {
                    "listen": f"127.0.0.1:{peers[name]}",
                    "operator": f"127.0.0.1:{self._operators[name]}",
                    "health": f"127.0.0.1:{health}",
                    "state": f"state-{name}",
                },
            )
            probe = await stack.enter_async_context(Api(f"http://127.0.0.1:{health}"))
            self.agents[name] = agent_of(name, config, probe)
            stack.push_async_callback(self.agents[name].kill)
        await asyncio.gather(*(agent.start() for agent in self.agents.values()))

    def _configure(self, name: str, config: Path, peers: dict[str, int], kubeconfig: str) -> None:
        if name == "watcher":
            return
        sibling = "two" if name == "one" else "one"
        change_config(
            config,
            {
                "source": {"kind": "kubernetes", "kubeconfig": kubeconfig, "export": "all"},
                "target": {"mode": "none"},
                "lease": {"enabled": True, "namespace": ACCOUNT[0], "name": self.lease},
                "peers": [
                    {"cluster": "watcher", "url": f"https://127.0.0.1:{peers['watcher']}"},
                    {"cluster": "one", "url": f"https://127.0.0.1:{peers[sibling]}"},
                ],
            },
        )

    async def role(self, name: str) -> str:
        """``writer`` or ``standby``; "" when it does not answer."""
        client = AgentClient(parse_address(f"127.0.0.1:{self._operators[name]}"))
        with contextlib.suppress(Exception):
            status = await asyncio.to_thread(client.status)
            return str(status["agent"]["role"])
        return ""

    async def writer(self) -> str:
        """Wait until exactly one of the two leads."""
        for _ in range(600):
            roles = {name: await self.role(name) for name in ("one", "two")}
            leading = [name for name, role in roles.items() if role == "writer"]
            if len(leading) == 1:
                return leading[0]
            await asyncio.sleep(0.05)
        pytest.fail("nobody leads")

    def seen(self, service: str) -> list[str]:
        """Addresses that the watcher has written of a service."""
        found = []
        for path in (self.folder / "watcher").glob("target/*/*.yaml"):
            with contextlib.suppress(FileNotFoundError):
                document = yaml.safe_load(path.read_text())
                labels = document["metadata"]["labels"]
                if labels["multicluster.kubernetes.io/service-name"] == service:
                    found += [a for e in document["endpoints"] for a in e["addresses"]]
        return sorted(found)

    async def expect(self, service: str, *addresses: str) -> None:
        """Wait until the watcher has written exactly these."""
        for _ in range(1200):
            if self.seen(service) == sorted(addresses):
                return
            await asyncio.sleep(0.05)
        pytest.fail(f"the watcher has {self.seen(service)} of {service}, not {addresses}")


@asynccontextmanager
async def pair_of(folder: Path, plane: ControlPlane, lease: str) -> AsyncIterator[Pair]:
    """Run a pair."""
    async with AsyncExitStack() as stack:
        made = Pair(folder, plane, lease)
        await made.start(stack)
        yield made


async def test_of_two_agents_one_writes_and_the_other_takes_over(
    planes: Planes, agent_account: str, run_folder: Path, name: str
) -> None:
    assert agent_account == "/".join(ACCOUNT)
    plane = planes["a"]
    await offer(plane.admin, name, {"10.1.30.1": True})
    async with pair_of(run_folder / "lease", plane, name) as pair:
        await pair.expect(name, "10.1.30.1")
        first = await pair.writer()
        second = "two" if first == "one" else "one"
        assert await pair.role(second) == "standby"

        await pair.agents[first].kill()
        await change(plane.admin, name, {"10.1.30.1": True, "10.1.30.2": True})
        began = time.monotonic()
        await pair.expect(name, "10.1.30.1", "10.1.30.2")
        assert time.monotonic() - began < 15, "sooner than the lease ran out"
        transitions = (await plane.admin.get(f"{LEASES}/{name}"))["spec"]["leaseTransitions"]

        await pair.agents[first].start()
        assert await pair.role(first) == "standby"
        assert await pair.agents[second].stop() == 0
        began = time.monotonic()
        assert await pair.writer() == first
        assert time.monotonic() - began < 5
        await change(plane.admin, name, {"10.1.30.2": True})
        await pair.expect(name, "10.1.30.2")
        spec = (await plane.admin.get(f"{LEASES}/{name}"))["spec"]
        assert spec["leaseTransitions"] > transitions
        with pytest.raises(ApiError, match="404"):
            await plane.admin.get(f"{LEASES}/replicator-one")
