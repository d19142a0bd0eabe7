"""The processes of the demonstration: one agent per region in a folder of its own, ended by pid.

Certificates and configurations are made here; the agents are started exactly as an operator would.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from clusters.base import Clock
from replicator.demo.relay import RelayMesh
from replicator.errors import NotGood, ReplicatorError
from replicator.ops.address import UnixAddress
from replicator.ops.client import AgentClient
from replicator.pki import create_ca, issue, save_pair

_CLUSTERSET = "demo"
_POLL_SECONDS = 0.1
_STOP_SECONDS = 10.0
_LOG_LINES = 12


@dataclass(frozen=True, slots=True)
class Churn:
    """What each region's simulated cluster does."""

    services: int
    endpoints: int
    changes_per_second: float
    seed: int
    seconds: float
    """After this long nothing changes any more; 0 is for ever."""


def free_port() -> int:
    """A loopback port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class World:
    """All regions; use :meth:`start` and :meth:`stop`."""

    def __init__(
        self,
        folder: Path,
        regions: Sequence[str],
        churn: Churn,
        one_way_ms: Callable[[str, str], float],
        clock: Clock,
    ) -> None:
        """Everything is made below ``folder``."""
        self.folder = folder
        self.regions = tuple(regions)
        self._churn = churn
        self._clock = clock
        self._listen = {region: free_port() for region in regions}
        targets = {region: ("127.0.0.1", port) for region, port in self._listen.items()}
        self.relays = RelayMesh(targets, one_way_ms, clock)
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self.clients = {
            region: AgentClient(UnixAddress(str(self._socket(region)))) for region in regions
        }

    def _socket(self, region: str) -> Path:
        return self.folder / f"{region}.sock"

    def address(self, region: str) -> str:
        """What to give to ``--agent``."""
        return f"unix:{self._socket(region)}"

    async def start(self, now: datetime) -> None:
        """Make certificates and configurations, then start relays and agents."""
        ports = await self.relays.start()
        authority = create_ca(_CLUSTERSET, now)
        for region in self.regions:
            home = self.folder / region
            save_pair(issue(authority, region, ["127.0.0.1"], now), authority, home)
            (home / "agent.yaml").write_text(json.dumps(self._config(region, ports), indent=1))
        for region in self.regions:
            await self._launch(region)

    def _config(self, region: str, ports: dict[tuple[str, str], int]) -> dict[str, Any]:
        churn = self._churn
        return {
            "clusterset": _CLUSTERSET,
            "cluster": region,
            "region": region,
            "listen": f"127.0.0.1:{self._listen[region]}",
            "operator": self.address(region),
            "health": None,
            "state": "state",
            "peers": [
                {"cluster": there, "url": f"https://127.0.0.1:{ports[region, there]}"}
                for there in self.regions
                if there != region
            ],
            "tls": {"certificate": "tls.crt", "key": "tls.key", "trust_bundle": "ca.crt"},
            "source": {
                "kind": "simulated",
                "services": churn.services,
                "endpoints": churn.endpoints,
                "churn": churn.changes_per_second,
                "seed": churn.seed,
                "duration": f"{churn.seconds:g}s",
            },
            "target": {"mode": "none"},
        }

    async def _launch(self, region: str) -> None:
        home = self.folder / region
        environ = {k: v for k, v in os.environ.items() if not k.startswith("REPLICATOR_")}
        with (home / "agent.log").open("ab") as log:
            self._processes[region] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "replicator", "agent", "--config"),
                str(home / "agent.yaml"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                start_new_session=True,
            )

    def check_alive(self) -> None:
        """Raise :class:`NotGood` with the log's end if an agent ended by itself."""
        for region, process in self._processes.items():
            if process.returncode is not None:
                lines = (self.folder / region / "agent.log").read_text().splitlines()
                tail = "\n".join(lines[-_LOG_LINES:])
                message = f"the agent of {region} ended with {process.returncode}:\n{tail}"
                raise NotGood(message)

    async def statuses(self) -> dict[str, dict[str, Any]]:
        """The status of every agent that answers."""
        answers: dict[str, dict[str, Any]] = {}

        async def ask(region: str) -> None:
            with contextlib.suppress(ReplicatorError):
                answers[region] = await asyncio.to_thread(self.clients[region].status)

        await asyncio.gather(*map(ask, self.regions))
        return {region: answers[region] for region in self.regions if region in answers}

    async def wait_ready(self, deadline: float) -> None:
        """Return once every agent is ready and linked to all others."""
        wanted = len(self.regions) - 1
        while True:
            self.check_alive()
            statuses = await self.statuses()
            linked = [
                sum(peer["state"] == "connected" for peer in status["peers"]) == wanted
                and status["agent"]["ready"]
                for status in statuses.values()
            ]
            if len(linked) == len(self.regions) and all(linked):
                return
            if self._clock.monotonic() > deadline:
                message = f"only {sum(linked)} of {len(self.regions)} agents became ready"
                raise NotGood(message)
            await self._clock.sleep(_POLL_SECONDS)

    async def stop(self) -> None:
        """End every agent by its pid, then the relays."""
        for process in self._processes.values():
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                await asyncio.wait_for(process.wait(), _STOP_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()
        await self.relays.stop()
