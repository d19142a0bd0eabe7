"""Two real control planes with an agent each, and a delay between the agents.

The API servers, their etcds and the agents are those of the end-to-end tests.  The agents reach
each other through the demonstration's relay, which lives in this process.  The controller managers
end once the namespaces are there: every slice is written by the measurement itself.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from replicator.demo.relay import RelayMesh
from replicator.system_clock import SystemClock
from tests.e2e.agent_programs import agent_of, change_config, init
from tests.e2e.agents import ACCOUNT, ACCOUNT_USER
from tests.e2e.kube import build
from tests.e2e.kube.api import Api
from tests.e2e.kube.audit import Call
from tests.e2e.kube.control_plane import ControlPlane
from tests.e2e.kube.ports import free_ports
from tests.e2e.kube.processes import Program
from tests.e2e.objects import NAMESPACE

SOURCE, TARGET = "a", "b"
ONE_WAY_MS = 40.0
_RBAC = Path(build.__file__).with_name("rbac.yaml")
_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE = re.compile(r"^(replicator_[a-z_]+(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)


def _delay(_: str, __: str) -> float:
    return ONE_WAY_MS


class Pair:
    """An asynchronous context manager: entered, both clusters and both agents are ready."""

    def __init__(self, folder: Path) -> None:
        """All files go below ``folder``."""
        self.folder = folder
        self.clock = SystemClock()
        self.planes: dict[str, ControlPlane] = {}
        self.agents: dict[str, Program] = {}
        self._health: dict[str, int] = {}
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._start_planes(stack)
            await self._make_agents(stack)
            await asyncio.gather(*(agent.start() for agent in self.agents.values()))
            self._exits = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._exits.aclose()

    async def _start_planes(self, stack: AsyncExitStack) -> None:
        programs = build.ensure()
        for index, name in enumerate((SOURCE, TARGET)):
            plane = ControlPlane(name, index, programs, self.folder / name)
            self.planes[name] = await stack.enter_async_context(plane)
            await plane.create_namespace(NAMESPACE)
            await plane.create_from(_RBAC)
            await plane.controller_manager.stop()

    async def _make_agents(self, stack: AsyncExitStack) -> None:
        ports = free_ports(3 * len(self.planes))
        listen = {name: ports.pop() for name in self.planes}
        init(self.folder / "agents", listen)
        relays = RelayMesh({n: ("127.0.0.1", p) for n, p in listen.items()}, _delay, self.clock)
        stack.push_async_callback(relays.stop)
        ways = await relays.start()
        for name, plane in self.planes.items():
            self._health[name], operator = ports.pop(), ports.pop()
            config = self.folder / "agents" / name / "agent.yaml"
            kubeconfig = await plane.service_account_kubeconfig(*ACCOUNT)
            source = {"kind": "kubernetes", "kubeconfig": str(kubeconfig), "export": "all"}
            peers = [
                {"cluster": there, "url": f"https://127.0.0.1:{port}"}
                for (here, there), port in ways.items()
                if here == name
            ]
            changes = {
                "operator": f"127.0.0.1:{operator}",
                "health": f"127.0.0.1:{self._health[name]}",
                "peers": peers,
                "source": source,
                "target": {"mode": "endpointslices"},
            }
            change_config(config, changes)
            probe = await stack.enter_async_context(Api(f"http://127.0.0.1:{self._health[name]}"))
            self.agents[name] = agent_of(name, config, probe)
            stack.push_async_callback(self.agents[name].stop)

    async def forget_state(self, name: str) -> None:
        """End an agent and throw its journal away: its next start is its first."""
        await self.agents[name].stop()
        for folder in (self.folder / "agents" / name).iterdir():
            if folder.is_dir() and any(folder.glob("*.sqlite*")):
                shutil.rmtree(folder)

    async def metrics(self, name: str) -> dict[str, float]:
        """Return every sample of an agent's metrics, by its name with labels."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._health[name])
        writer.write(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
        text = (await reader.read()).decode()
        writer.close()
        return {sample: float(value) for sample, value in _SAMPLE.findall(text)}

    def cpu_seconds(self, name: str) -> float:
        """CPU used so far by all threads of an agent, to the nanosecond where the kernel tells."""
        folder = Path("/proc") / str(self.agents[name].pid)
        try:
            tasks = [(one / "schedstat").read_text() for one in (folder / "task").iterdir()]
            return sum(int(text.split()[0]) for text in tasks) / 1e9
        except FileNotFoundError:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory(self, name: str) -> dict[str, int]:
        """Resident bytes of an agent: now, and the most there ever was."""
        lines = (Path("/proc") / str(self.agents[name].pid) / "status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return {
            "resident_bytes": int(fields["VmRSS"].split()[0]) * 1024,
            "peak_bytes": int(fields["VmHWM"].split()[0]) * 1024,
        }

    def prefer(self, nice: int) -> bool:
        """Give all programs and this process that nice value against other sessions of the machine.

        False where the kernel has no such groups, or does not let us.
        """
        running = [one.pid for one in self.agents.values()]
        running += [one.pid for p in self.planes.values() for one in p.programs if one.running]
        try:
            for pid in (*running, os.getpid()):
                Path(f"/proc/{pid}/autogroup").write_text(f"{nice}\n", encoding="ascii")
        except OSError:
            return False
        return True

    async def writes_since(self, mark: int) -> list[Call]:
        """All writes of the agent of the second cluster after a mark in its audit log."""
        calls = await self.planes[TARGET].calls_since(mark, ACCOUNT_USER)
        return [call for call in calls if call.is_write]

    def describe(self) -> dict[str, Any]:
        """What ran."""
        built = self.planes[SOURCE].built
        return {"kubernetes": built.version, "etcd": build.ETCD_VERSION, "one_way_ms": ONE_WAY_MS}
