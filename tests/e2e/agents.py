"""The agents under test: one process a cluster, as an operator would run it, and what they did.

Certificates and configurations come from ``replicator init``; each agent talks to its API server
with the token of its own service account and so with the rights of ``kube/rbac.yaml`` and no more.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from .kube.api import Api, Object, Objects
from .kube.audit import Call
from .kube.control_plane import ControlPlane
from .kube.ports import free_ports
from .kube.processes import Program
from .objects import (
    IMPORTED_SERVICE_LABEL,
    SLICES,
    endpoint,
    endpoint_slice,
    imported,
    names,
    readiness,
)

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "replicator")
# The agent takes variables of this prefix for settings; those of the tests are none of them.
ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if not key.startswith("REPLICATOR_")},
    "PYTHONPATH": str(ROOT),
    "PYTHONUNBUFFERED": "1",
}
ACCOUNT = ("replicator-system", "replicator-agent")
ACCOUNT_USER = f"system:serviceaccount:{ACCOUNT[0]}:{ACCOUNT[1]}"
EXPECT_SECONDS = 60.0
INIT_SECONDS = 60.0
SENTINEL = "sentinel-"


class Mesh:
    """Control planes with an agent each; an asynchronous context manager over the agents.

    The control planes must run already and have the agent's account.  Methods named ``expect``
    watch until something is so and fail the test if it never is.
    """

    export = "all"
    mode = "endpointslices"

    def __init__(self, planes: Mapping[str, ControlPlane], folder: Path) -> None:
        self.planes = dict(planes)
        self.agents: dict[str, Program] = {}
        self._folder = folder
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> Self:
        ports = free_ports(3 * len(self.planes))
        peers, others = ports[: len(self.planes)], ports[len(self.planes) :]
        _init(self._folder, dict(zip(self.planes, peers, strict=True)))
        async with AsyncExitStack() as stack:
            for name, plane in self.planes.items():
                operator, health = others.pop(), others.pop()
                kubeconfig = await plane.service_account_kubeconfig(*ACCOUNT)
                config = self._folder / name / "agent.yaml"
                source = {
                    "kind": "kubernetes",
                    "kubeconfig": str(kubeconfig),
                    "export": self.export,
                }
                changes = {
                    "operator": f"127.0.0.1:{operator}",
                    "health": f"127.0.0.1:{health}",
                    "source": source,
                    "target": {"mode": self.mode},
                }
                _change(config, changes)
                probe = await stack.enter_async_context(Api(f"http://127.0.0.1:{health}"))
                self.agents[name] = _agent(name, config, probe)
                stack.push_async_callback(self.agents[name].kill)
            await self.start_all()
            self._exits = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._exits.aclose()

    async def start_all(self) -> None:
        """Start the agents that do not run; a test may leave one dead when it fails."""
        dead = [agent for agent in self.agents.values() if not agent.running]
        await asyncio.gather(*(agent.start() for agent in dead))

    def others(self, cluster: str) -> list[str]:
        """All clusters but this one."""
        return [name for name in self.planes if name != cluster]

    async def expect(
        self,
        cluster: str,
        service: str,
        endpoints: Mapping[str, bool],
        *,
        source: str,
        slices: str = SLICES,
    ) -> Objects:
        """Watch ``cluster`` until its slices of a service from ``source`` have these endpoints.

        ``endpoints`` maps each address to its readiness.  With none of them there must be no slice
        either, since an empty slice left behind would be one for ever.
        """
        wanted = dict(endpoints)
        return await self.planes[cluster].admin.wait_for(
            slices,
            lambda found: readiness(found) == wanted and (bool(wanted) or not found),
            what=f"cluster {cluster} has {wanted} for {service} of {source}",
            query=imported(service, source),
            seconds=EXPECT_SECONDS,
        )

    async def expect_in_others(
        self, service: str, endpoints: Mapping[str, bool], *, source: str
    ) -> dict[str, Objects]:
        """Expect the same endpoints in every cluster but ``source``; returns the slices there."""
        clusters = self.others(source)
        found = await asyncio.gather(
            *(self.expect(cluster, service, endpoints, source=source) for cluster in clusters)
        )
        return dict(zip(clusters, found, strict=True))

    async def slices(self, cluster: str, service: str, source: str | None = None) -> Objects:
        """All slices that ``cluster`` now has of a service from other clusters."""
        found = await self.planes[cluster].admin.get(SLICES, imported(service, source))
        items: Objects = found["items"]
        return items

    async def flush(self) -> None:
        """Return when everything that happened before has reached every cluster that is up.

        A fresh service made in each cluster is waited for in all others, twice: changes travel in
        order, and the second one is queued behind the writes the first round overlapped.
        """
        for _ in range(2):
            await asyncio.gather(*(self._sentinel(cluster) for cluster in self.planes))

    async def _sentinel(self, cluster: str) -> None:
        name = f"{SENTINEL}{secrets.token_hex(6)}"
        one = endpoint_slice(name, name, [endpoint("10.99.0.1")])
        await self.planes[cluster].admin.create(SLICES, one)
        await self.expect_in_others(name, {"10.99.0.1": True}, source=cluster)

    def marks(self) -> dict[str, int]:
        """Mark the present in every cluster's audit log, for ``writes_since``."""
        return {name: plane.audit.end() for name, plane in self.planes.items()}

    async def calls_since(self, marks: Mapping[str, int], cluster: str) -> list[Call]:
        """All that the cluster's agent asked of its API server since."""
        return await self.planes[cluster].calls_since(marks[cluster], ACCOUNT_USER)

    async def writes_since(self, marks: Mapping[str, int], cluster: str) -> list[Call]:
        """All writes asked for by the cluster's agent since, but those for sentinels."""
        calls = await self.calls_since(marks, cluster)
        of_sentinels = await self._of_sentinels(cluster)
        return [call for call in calls if call.is_write and call.name not in of_sentinels]

    async def _of_sentinels(self, cluster: str) -> set[str]:
        """Names of the objects that exist because of sentinels."""
        every = await self.planes[cluster].admin.get(
            SLICES, {"labelSelector": IMPORTED_SERVICE_LABEL}
        )
        return names([one for one in every["items"] if is_of_sentinel(one)])


def is_of_sentinel(one: Object) -> bool:
    """Whether an object of ours is for a sentinel; tells by its label."""
    service: str = one["metadata"]["labels"][IMPORTED_SERVICE_LABEL]
    return service.startswith(SENTINEL)


def _init(folder: Path, peer_ports: Mapping[str, int]) -> None:
    """Make certificates and configurations; fails with the command's own words."""
    clusters = [f"--cluster={name}=127.0.0.1:{port}" for name, port in peer_ports.items()]
    done = subprocess.run(
        [*COMMAND, "init", str(folder), "--clusterset=e2e", *clusters],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
        timeout=INIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"replicator init: {done.returncode}\n{done.stdout}{done.stderr}"
    for name, port in peer_ports.items():
        _change(folder / name / "agent.yaml", {"listen": f"127.0.0.1:{port}"})


def _change(config: Path, changes: Mapping[str, Any]) -> None:
    settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    config.write_text(yaml.safe_dump({**settings, **changes}), encoding="utf-8")


def _agent(name: str, config: Path, probe: Api) -> Program:
    return Program(
        f"agent of {name}",
        [*COMMAND, "agent", "--config", str(config)],
        log=config.parent / "logs" / f"{name}-agent.log",
        ready=lambda: probe.answers_ok("/readyz"),
        environment=ENVIRONMENT,
    )
