"""``python -m tests.conformance --suite CHECKOUT``: the suite against our agents, then a table.

It starts control planes of its own, without kubelets, and runs the specs that execute nothing in
pods.  With ``--nodes`` (root) it starts whole clusters and runs all specs; with ``--kubeconfig`` it
runs all specs against clusters that run already.
The agents run here, as processes, with the rights of ``tests/e2e/kube/rbac-mcs.yaml``.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.agent_programs import Agents
from tests.e2e.agents import ACCOUNT
from tests.e2e.kube.build import BuildError
from tests.e2e.multicluster import RBAC

from .bare import bare_clusters
from .given import given_clusters
from .nodes.clusters import whole_clusters
from .specs import chosen, outcome, passed, shares, table
from .suite import Suite, SuiteError, ensure


def main() -> int:
    """Run; 0 when everything that ran passed, 1 when something did not, 2 when it cannot run."""
    options = _options()
    try:
        return asyncio.run(_run(options, ensure(options.suite)))
    except (SuiteError, BuildError, KeyError) as error:
        sys.stderr.write(f"conformance: {error}\n")
        return 2


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="conformance", description=(__doc__ or "").split(":")[0])
    parser.add_argument(
        "--suite", type=Path, required=True, help="clone of github.com/kubernetes-sigs/mcs-api"
    )
    parser.add_argument("--clusters", type=int, default=2, help="how many to start (default: 2)")
    parser.add_argument("--dual", action="store_true", help="with IPv4 and IPv6")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--nodes", action="store_true", help="with nodes and pods; needs root")
    where.add_argument("--kubeconfig", type=Path, help="clusters with pods that run already")
    parser.add_argument("--contexts", default="", help="which of its contexts, with commas between")
    parser.add_argument("--focus", default="", help="pattern over names and labels of specs")
    parser.add_argument("--jobs", type=int, default=4, help="shares at once (default: 4)")
    parser.add_argument("--out", type=Path, help="where a folder with logs and reports is made")
    return parser.parse_args()


async def _run(options: argparse.Namespace, program: Path) -> int:
    out = _fresh(options.out)
    async with _clusters(options, out) as (kubeconfig, kubeconfigs):
        agents = Agents(kubeconfigs, out / "agents", export="service-export", mode="mcs")
        async with agents:
            suite = Suite(program, kubeconfig, list(kubeconfigs), out / "suite")
            pods = options.nodes or options.kubeconfig is not None
            wanted = chosen(await suite.specs(), pods=pods, focus=options.focus)
            ended = outcome(wanted, await suite.run(shares(wanted, options.jobs)))
    sys.stdout.write(f"{table(ended)}\nlogs and reports: {out}\n")
    return 0 if passed(ended) else 1


@asynccontextmanager
async def _clusters(
    options: argparse.Namespace, out: Path
) -> AsyncIterator[tuple[Path, dict[str, Path]]]:
    """Yield a kubeconfig of all clusters for the suite, and one of each for its agent."""
    folder = out / "clusters"
    async with AsyncExitStack() as stack:
        kubeconfig, contexts = options.kubeconfig, [x for x in options.contexts.split(",") if x]
        if options.nodes:
            whole = whole_clusters(options.clusters, folder, dual=options.dual)
            kubeconfig = _together(await stack.enter_async_context(whole), folder / "kubeconfig")
        if kubeconfig is not None:
            given = given_clusters(_read(kubeconfig), contexts, folder / "given")
            yield kubeconfig.absolute(), await stack.enter_async_context(given)
            return
        bare = bare_clusters(options.clusters, folder, dual=options.dual)
        planes = await stack.enter_async_context(bare)
        accounts = {}
        for name, plane in planes.items():
            await plane.create_from(RBAC)
            accounts[name] = await plane.service_account_kubeconfig(*ACCOUNT)
        admins = {name: plane.admin_kubeconfig for name, plane in planes.items()}
        yield _together(admins, folder / "kubeconfig"), accounts


def _together(kubeconfigs: dict[str, Path], path: Path) -> Path:
    """Write one kubeconfig with a context for each cluster, named as it is."""
    made: dict[str, object] = {"apiVersion": "v1", "kind": "Config", "current-context": ""}
    clusters, users, contexts = [], [], []
    for name, each in kubeconfigs.items():
        config = _read(each)
        clusters.append({**config["clusters"][0], "name": name})
        users.append({**config["users"][0], "name": name})
        contexts.append({"name": name, "context": {"cluster": name, "user": name}})
    made |= {"clusters": clusters, "users": users, "contexts": contexts}
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(made), encoding="utf-8")
    return path


def _fresh(parent: Path | None) -> Path:
    """A folder that is empty: etcd's data of an earlier run must not be met again."""
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="conformance-", dir=parent)).absolute()


def _read(kubeconfig: Path) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(kubeconfig.read_text("utf-8"))
    return config


if __name__ == "__main__":
    raise SystemExit(main())
