"""The agents under test: one process a cluster, as an operator would run it.

Certificates and configurations come from ``replicator init``.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from .kube.api import Api
from .kube.ports import free_ports
from .kube.processes import Program

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "replicator")
# The agent takes variables of this prefix for settings; those of the tests are none of them.
ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if not key.startswith("REPLICATOR_")},
    "PYTHONPATH": str(ROOT),
    "PYTHONUNBUFFERED": "1",
}
INIT_SECONDS = 60.0


class Agents:
    """An agent for each cluster; entered, it is the running programs by cluster.

    ``kubeconfigs`` say where each agent finds its API server, and with whose rights it works there.
    """

    def __init__(
        self, kubeconfigs: Mapping[str, Path], folder: Path, *, export: str, mode: str
    ) -> None:
        self._kubeconfigs = dict(kubeconfigs)
        self._folder = folder
        self._export = export
        self._mode = mode
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> dict[str, Program]:
        clusters = list(self._kubeconfigs)
        ports = free_ports(3 * len(clusters))
        peers, others = ports[: len(clusters)], ports[len(clusters) :]
        init(self._folder, dict(zip(clusters, peers, strict=True)))
        made = {}
        async with AsyncExitStack() as stack:
            for name in clusters:
                health = others.pop()
                config = self._configured(name, operator=others.pop(), health=health)
                probe = await stack.enter_async_context(Api(f"http://127.0.0.1:{health}"))
                made[name] = agent_of(name, config, probe)
                stack.push_async_callback(made[name].kill)
            await asyncio.gather(*(agent.start() for agent in made.values()))
            self._exits = stack.pop_all()
        return made

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._exits.aclose()

    def _configured(self, name: str, *, operator: int, health: int) -> Path:
        config = self._folder / name / "agent.yaml"
        source = {
            "kind": "kubernetes",
            "kubeconfig": str(self._kubeconfigs[name]),
            "export": self._export,
        }
        changes = {
            "operator": f"127.0.0.1:{operator}",
            "health": f"127.0.0.1:{health}",
            "source": source,
            "target": {"mode": self._mode},
        }
        change_config(config, changes)
        return config


def init(folder: Path, peer_ports: Mapping[str, int], clusterset: str = "e2e") -> None:
    """Make certificates and configurations; fails with the command's own words."""
    clusters = [f"--cluster={name}=127.0.0.1:{port}" for name, port in peer_ports.items()]
    done = subprocess.run(
        [*COMMAND, "init", str(folder), f"--clusterset={clusterset}", *clusters],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
        timeout=INIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"replicator init: {done.returncode}\n{done.stdout}{done.stderr}"
    for name, port in peer_ports.items():
        change_config(folder / name / "agent.yaml", {"listen": f"127.0.0.1:{port}"})


def change_config(config: Path, changes: Mapping[str, Any]) -> None:
    """Give keys of a configuration other values."""
    settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    config.write_text(yaml.safe_dump({**settings, **changes}), encoding="utf-8")


def agent_of(name: str, config: Path, probe: Api) -> Program:
    """Return the program of one agent, not started; ready when its health listener says so."""
    return Program(
        f"agent of {name}",
        [*COMMAND, "agent", "--config", str(config)],
        log=config.parent / "logs" / f"{name}-agent.log",
        ready=lambda: probe.answers_ok("/readyz"),
        environment=ENVIRONMENT,
    )
