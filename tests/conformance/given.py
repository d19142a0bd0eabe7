"""Clusters that run already, given by a kubeconfig: CRDs and the agent's account are made there.

For clusters with nodes and pods, whoever made them.  Users with a token or a client certificate.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.agents import ACCOUNT
from tests.e2e.kube.api import Api, ApiError
from tests.e2e.kube.control_plane import COLLECTIONS
from tests.e2e.kube.crds import multicluster_crds
from tests.e2e.kube.credentials import write_kubeconfig, write_private
from tests.e2e.multicluster import RBAC, wait_for_crds

TOKEN_SECONDS = 24 * 3600


class Given:
    """One context of a kubeconfig; ``folder`` takes the files made for it."""

    def __init__(self, config: dict[str, Any], context: str, folder: Path) -> None:
        named = _named(config, "contexts", context)["context"]
        cluster = _named(config, "clusters", named["cluster"])["cluster"]
        user = _named(config, "users", named["user"])["user"]
        folder.mkdir(parents=True, exist_ok=True)
        self.server: str = cluster["server"]
        self._folder = folder
        self._ca = _file(folder / "ca.crt", cluster, "certificate-authority")
        self.admin = Api(
            self.server,
            user.get("token", ""),
            self._ca,
            certificate=_file(folder / "client.crt", user, "client-certificate"),
            key=_file(folder / "client.key", user, "client-key"),
        )

    async def prepare(self, crds: tuple[Path, ...]) -> Path:
        """Make what agents need, as far as it is missing; returns a kubeconfig of theirs."""
        for manifest in (*crds, RBAC):
            for item in yaml.safe_load_all(manifest.read_text("utf-8")):
                namespace = item["metadata"].get("namespace", "")
                path = COLLECTIONS[item["kind"]].format(namespace=namespace)
                try:
                    await self.admin.create(path, item)
                except ApiError as exists:
                    if exists.status != 409:
                        raise
        await wait_for_crds(self.admin)
        namespace, name = ACCOUNT
        answer = await self.admin.create(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {"spec": {"expirationSeconds": TOKEN_SECONDS}},
        )
        assert self._ca is not None, "the kubeconfig names no certificate authority"
        return write_kubeconfig(
            self._folder / "agent.kubeconfig",
            server=self.server,
            ca=self._ca,
            user=name,
            token=answer["status"]["token"],
        )


@asynccontextmanager
async def given_clusters(
    config: dict[str, Any], contexts: list[str], folder: Path
) -> AsyncIterator[dict[str, Path]]:
    """Prepare each context of a kubeconfig, all if none is named; yields the agents' own."""
    wanted = contexts or [one["name"] for one in config["contexts"]]
    crds = multicluster_crds()
    made = {}
    async with AsyncExitStack() as stack:
        for context in wanted:
            given = Given(config, context, folder / context)
            await stack.enter_async_context(given.admin)
            made[context] = await given.prepare(crds)
        yield made


def _named(config: dict[str, Any], part: str, name: str) -> dict[str, Any]:
    for one in config.get(part) or ():
        if one["name"] == name:
            found: dict[str, Any] = one
            return found
    raise KeyError(f"the kubeconfig has no {name} among its {part}")


def _file(path: Path, where: dict[str, Any], field: str) -> Path | None:
    """A file that a kubeconfig names, or the one made of what stands in it."""
    if f"{field}-data" in where:
        write_private(path, base64.b64decode(where[f"{field}-data"]))
        return path
    return Path(where[field]) if field in where else None
