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
from replicator.demo import summary
from replicator.demo.relay import RelayMesh
from replicator.demo.summary import Reading
from replicator.errors import NotGood, ReplicatorError
from replicator.ops.address import Address, TcpAddress, UnixAddress
from replicator.ops.client import AgentClient
from replicator.pki import create_ca, issue, save_pair

AGENT = (sys.executable, "-m", "replicator", "agent")
_CLUSTERSET = "demo"
_HOST = "127.0.0.1"
_POLL_SECONDS = 0.2
_STOP_SECONDS = 10.0
_PATIENCE_SECONDS = 20.0
_LOG_LINES = 12
_SOCKET_PATH_LIMIT = 100
"""Bytes; systems allow 104 or 108."""


@dataclass(frozen=True, slots=True)
class Churn:
    """What each region's simulated cluster does."""

    services: int
    endpoints: int
    changes_per_second: float
    seed: int
    seconds: float
    """After so long nothing changes any more; 0 is for ever."""


class AgentTrouble(NotGood):
    """An agent did not do its part; ``log`` holds the ends of the logs concerned."""

    def __init__(self, message: str, log: Sequence[str]) -> None:
        super().__init__(message)
        self.log = tuple(log)


def hold_port() -> socket.socket:
    """A loopback port for an agent, held as far as the system allows.

    On Linux a bound socket that does not listen keeps the kernel from giving its port away, yet
    lets a server with ``SO_REUSEADDR`` listen on it.  Elsewhere the port is only free just now.
    """
    held = socket.socket()
    if sys.platform == "linux":
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((_HOST, 0))
    return held


def _port_of(held: socket.socket) -> int:
    return int(held.getsockname()[1])


class World:
    """All regions; use :meth:`start` and, whatever happened, :meth:`stop`."""

    def __init__(
        self,
        folder: Path,
        regions: Sequence[str],
        churn: Churn,
        one_way_ms: Callable[[str, str], float],
        clock: Clock,
        program: Sequence[str],
    ) -> None:
        """Everything is made below ``folder``; ``program --config FILE`` runs an agent."""
        self.regions = tuple(regions)
        self._folder = folder
        self._churn = churn
        self._clock = clock
        self._program = tuple(program)
        self._held: list[socket.socket] = []
        self._listen = {region: self._port() for region in regions}
        self._operator = {region: self._operator_address(region) for region in regions}
        targets = {region: (_HOST, port) for region, port in self._listen.items()}
        self.relays = RelayMesh(targets, one_way_ms, clock)
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self.clients = {
            region: AgentClient(address, patience=_PATIENCE_SECONDS)
            for region, address in self._operator.items()
        }

    def _port(self) -> int:
        held = hold_port()
        self._held.append(held)
        return _port_of(held)

    def _operator_address(self, region: str) -> Address:
        path = str(self._folder / f"{region}.sock")
        if len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT:
            return UnixAddress(path)
        return TcpAddress(_HOST, self._port())

    def address(self, region: str) -> str:
        """What to give to ``--agent``."""
        return str(self._operator[region])

    # ---- starting ------------------------------------------------------------------------------

    async def start(self, now: datetime) -> None:
        """Make certificates and configurations, then start relays and agents."""
        ports = await self.relays.start()
        authority = create_ca(_CLUSTERSET, now)
        for region in self.regions:
            home = self._folder / region
            save_pair(issue(authority, region, self.hosts(region), now), authority, home)
            document = json.dumps(self.config(region, ports), indent=1)
            (home / "agent.yaml").write_text(document, encoding="utf-8")
        if sys.platform != "linux":
            self._release()
        for region in self.regions:
            await self._launch(region)

    def config(self, region: str, ports: dict[tuple[str, str], int]) -> dict[str, Any]:
        """The configuration of a region's agent, whose peers are behind relays on ``ports``."""
        churn = self._churn
        return {
            "clusterset": _CLUSTERSET,
            "cluster": region,
            "region": region,
            "listen": f"{_HOST}:{self._listen[region]}",
            "operator": self.address(region),
            "health": None,
            "state": "state",
            "peers": [
                {"cluster": there, "url": f"https://{_HOST}:{ports[region, there]}"}
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
                "duration": f"{churn.seconds:.3f}s",
            },
            "target": {"mode": "none"},
        }

    def hosts(self, region: str) -> list[str]:
        """Where a region's agent is reached: what its certificate names."""
        del region
        return [_HOST]

    def program(self, region: str) -> Sequence[str]:
        """What runs a region's agent."""
        del region
        return self._program

    async def _launch(self, region: str) -> None:
        home = self._folder / region
        environ = {k: v for k, v in os.environ.items() if not k.startswith("REPLICATOR_")}
        with (home / "agent.log").open("ab") as log:
            self._processes[region] = await asyncio.create_subprocess_exec(
                *(*self.program(region), "--config", str(home / "agent.yaml")),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                start_new_session=True,
            )

    async def wait_ready(self, deadline: float, progress: Callable[[str], None]) -> Reading:
        """Return once every agent is ready, linked to all others, and all hold everything."""
        wanted = len(self.regions)
        while True:
            self.check_alive()
            reading = await self.statuses()
            linked = summary.linked(reading)
            complete = summary.complete(reading, self._churn.services)
            told = (
                f"of {wanted} agents {len(reading)} answer, {linked} are linked to all others, "
                f"{complete if len(reading) == wanted else 0} hold every region's services"
            )
            progress(told)
            if len(reading) == wanted and linked == complete == wanted:
                return reading
            if self._clock.monotonic() > deadline:
                tails = [line for region in self.regions for line in self.tail(region)]
                raise AgentTrouble(f"the agents were not ready in time: {told}", tails)
            await self._clock.sleep(_POLL_SECONDS)

    # ---- running -------------------------------------------------------------------------------

    def tail(self, region: str) -> list[str]:
        """The end of a region's log."""
        log = self._folder / region / "agent.log"
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        return [f"{region}: {line}" for line in text.splitlines()[-_LOG_LINES:]]

    def check_alive(self) -> None:
        """Raise :class:`AgentTrouble` if an agent ended by itself."""
        for region, process in self._processes.items():
            if process.returncode is not None:
                message = f"the agent of {region} ended by itself with {process.returncode}"
                raise AgentTrouble(message, self.tail(region))

    async def everyone(self) -> Reading:
        """The status of every agent; raises :class:`AgentTrouble` if one does not answer."""
        self.check_alive()
        reading = await self.statuses()
        for region in self.regions:
            if region not in reading:
                self.check_alive()
                raise AgentTrouble(f"the agent of {region} does not answer", self.tail(region))
        return reading

    async def statuses(self) -> dict[str, dict[str, Any]]:
        """The status of every agent that answers, in the order of the regions."""
        answers: dict[str, dict[str, Any]] = {}

        async def ask(region: str) -> None:
            with contextlib.suppress(ReplicatorError):
                answers[region] = await asyncio.to_thread(self.clients[region].status)

        async with asyncio.TaskGroup() as group:
            for region in self.regions:
                group.create_task(ask(region))
        return {region: answers[region] for region in self.regions if region in answers}

    # ---- ending --------------------------------------------------------------------------------

    def kill(self) -> None:
        """End every agent at once."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes.values():
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number)

    async def stop(self) -> dict[str, int]:
        """End every agent by its pid in order, then the relays; returns the exit statuses."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                for process in self._processes.values():
                    await process.wait()
        except TimeoutError:
            self.kill()
        statuses = {region: await process.wait() for region, process in self._processes.items()}
        await self.relays.stop()
        self._release()
        return statuses

    def _release(self) -> None:
        for held in self._held:
            held.close()
        self._held.clear()
