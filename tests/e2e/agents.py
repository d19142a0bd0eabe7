"""Clusters with the agents under test, and what those did.

Each agent talks to its API server with the token of its own service account, and so with the rights
of ``kube/rbac.yaml`` and no more.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from .agent_programs import Agents
from .kube.api import Object, Objects
from .kube.audit import Call
from .kube.control_plane import ControlPlane
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

ACCOUNT = ("replicator-system", "replicator-agent")
ACCOUNT_USER = f"system:serviceaccount:{ACCOUNT[0]}:{ACCOUNT[1]}"
EXPECT_SECONDS = 60.0
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
        kubeconfigs = {
            name: await plane.service_account_kubeconfig(*ACCOUNT)
            for name, plane in self.planes.items()
        }
        running = Agents(kubeconfigs, self._folder, export=self.export, mode=self.mode)
        self.agents = await self._exits.enter_async_context(running)
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

    async def marks(self, *, settled: bool = True) -> dict[str, int]:
        """Mark the present in every cluster's audit log, for ``writes_since``.

        A write may be seen before its answer is logged, so all that happened before is flushed
        first.  Where agents are down that cannot be: then ask for marks that are not ``settled``.
        """
        if settled:
            await self.flush()
        return {name: await plane.mark() for name, plane in self.planes.items()}

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
