"""Several whole agents of one cluster in virtual time: real folders, journals and lease file.

``fjord`` has up to three agents (``a``, ``b``, ``c``) over one source and one target folder, each
with a state folder of its own; ``mesa`` has one.  An agent's address is its cluster and letter.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from collections.abc import AsyncIterator, Callable
from contextvars import copy_context
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from crdt import Origin
from replicator.agent import Agent
from replicator.config import parse_config
from replicator.identity import PeerIdentity
from replicator.ops.address import parse_address
from replicator.ops.client import AgentClient
from replicator.pki import create_ca, issue, save_pair
from replicator.remote_origin import RemoteOrigin
from replicator.transport.doorway import Bounds
from replicator.transport.memory import MemoryLink, MemoryListener, MemoryNetwork
from replicator.transport.reload import LiveTls
from tests.support.virtual_loop import PROCESS, VirtualClock, VirtualLoop

FJORD = Origin("fjord")
AGENTS = ("fjord-a", "fjord-b", "fjord-c", "mesa-a", "mesa-b")
SERVICES = {"fjord": 101, "mesa": 102}
"""Ports that lead to any agent of a cluster, one after the other."""
_SOURCE_CLUSTER = "multicluster.kubernetes.io/source-cluster"
_LOOK_SECONDS = 0.01


def cluster_of(name: str) -> str:
    """The cluster of an agent."""
    return name.partition("-")[0]


def _manifest(addresses: tuple[str, ...]) -> str:
    document = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "cart-aa1",
            "namespace": "shop",
            "labels": {"kubernetes.io/service-name": "cart"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address]} for address in addresses],
    }
    return yaml.safe_dump(document)


class _Listener(MemoryListener):
    """Runs what was dialled as a task of the process that listens."""

    def take(self, link: MemoryLink) -> None:
        """See the base."""
        context = copy_context()
        context.run(PROCESS.set, AGENTS[self._port - 1])
        context.run(super().take, link)

    def sever(self) -> None:
        """Its process is gone: what was dialled breaks, and nothing answers any more."""
        self._network.listeners.pop(self._port, None)
        for link in self._running.values():
            link.sever()


class _Listeners(dict[int, MemoryListener]):
    """By port, and behind the ports of services."""

    def __init__(self) -> None:
        super().__init__()
        self._turns = count()

    def get(self, port: int, default: Any = None) -> Any:
        """See the base."""
        cluster = next((name for name, number in SERVICES.items() if number == port), None)
        if cluster is None:
            return super().get(port, default)
        alive = [n for n in sorted(self) if cluster_of(AGENTS[n - 1]) == cluster]
        return self[alive[next(self._turns) % len(alive)]] if alive else default


class Running:
    """One agent while it lives."""

    def __init__(
        self, agent: Agent, task: asyncio.Task[None], stop: asyncio.Event, listener: _Listener
    ) -> None:
        self.agent = agent
        self.task = task
        self.stop = stop
        self.listener = listener


class Bed:
    """Two clusters; agents come and go."""

    def __init__(self, folder: Path, siblings: int = 2, *, services: bool = False) -> None:
        """Nothing runs yet; ``siblings`` agents of fjord are configured.

        With ``services`` every address leads to any agent of its cluster, even to the agent itself,
        and mesa's agents share a lease, too.
        """
        self.folder = folder
        self.clock = VirtualClock()
        self.network = MemoryNetwork()
        self.network.listeners = _Listeners()
        self._services = services
        self.running: dict[str, Running] = {}
        now = self._now = datetime.fromtimestamp(self.clock.began_ns / 1e9, UTC)
        self._authority = create_ca("prod", now)
        self._seeds = iter(range(1000))
        self._siblings = AGENTS[:siblings]
        for name in AGENTS:
            home = folder / name
            issued = issue(self._authority, cluster_of(name), ["127.0.0.1"], now)
            save_pair(issued, self._authority, home)
            (folder / cluster_of(name) / "source").mkdir(parents=True, exist_ok=True)

    # ---- agents --------------------------------------------------------------------------------

    def _config(self, name: str) -> dict[str, Any]:
        cluster = cluster_of(name)
        others = ["mesa-a"] if cluster == "fjord" else ["fjord-a"]
        if name in self._siblings and len(self._siblings) > 1:
            place = self._siblings.index(name) + 1
            others.append(self._siblings[place % len(self._siblings)])
        ports = {cluster_of(peer): AGENTS.index(peer) + 1 for peer in others}
        if self._services:
            ports = SERVICES
        peers = [{"cluster": c, "url": f"https://memory:{port}"} for c, port in ports.items()]
        shared = self.folder / cluster
        return {
            "clusterset": "prod",
            "cluster": cluster,
            "listen": "127.0.0.1:7443",
            "operator": f"unix:{self.folder / name}.sock",
            "health": None,
            "state": "state",
            "peers": peers,
            "tls": {"certificate": "tls.crt", "key": "tls.key", "trust_bundle": "ca.crt"},
            "source": {"kind": "directory", "path": str(shared / "source"), "export": "all"},
            "target": {"mode": "directory", "path": str(shared / "target")},
            "lease": {"enabled": cluster == "fjord" or self._services},
        }

    async def start(self, name: str) -> Agent:
        """Start an agent, as a process of its own, with what its state folder holds."""
        home = self.folder / name
        config = parse_config(json.dumps(self._config(name)).encode(), home / "agent.yaml", {})
        identity = PeerIdentity("prod", cluster_of(name))
        tls = LiveTls(config.tls, identity, lambda: self._now)
        rng = random.Random(next(self._seeds))
        context = copy_context()
        context.run(PROCESS.set, name)
        loop = asyncio.get_running_loop()
        build = Agent.build(config, self.clock, rng, tls, {})
        agent = await loop.create_task(build, context=context)
        listener = _Listener(self.network, identity, AGENTS.index(name) + 1, agent.admit, Bounds())
        stop = asyncio.Event()
        task = loop.create_task(
            agent.run(listener, self.network.dialer(identity), stop), context=context
        )
        self.running[name] = Running(agent, task, stop, listener)
        return agent

    async def start_all(self, *names: str) -> None:
        """Start these and wait until they are ready."""
        for name in names:
            await self.start(name)
        await self.until(lambda: all(self[name].ready()[0] for name in names))

    def __getitem__(self, name: str) -> Agent:
        return self.running[name].agent

    async def end(self, name: str) -> None:
        """As SIGTERM does."""
        running = self.running.pop(name)
        running.stop.set()
        await running.task

    async def kill(self, name: str) -> None:
        """As SIGKILL does, as far as one process can: nothing is flushed, the links break."""
        running = self.running.pop(name)
        running.listener.sever()
        running.task.cancel()
        self.thaw(name)
        await asyncio.gather(running.task, return_exceptions=True)

    def freeze(self, name: str) -> None:
        """As SIGSTOP does; or for ever, as a machine that is gone: its links do not even break."""
        self._loop.freeze(name)

    def thaw(self, name: str, *, newest_first: bool = False) -> None:
        """As SIGCONT does; what came last may well be seen first."""
        self._loop.thaw(name, newest_first=newest_first)

    @property
    def _loop(self) -> VirtualLoop:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return loop

    # ---- who leads -----------------------------------------------------------------------------

    def leads(self, name: str) -> bool:
        """Whether an agent may write now."""
        return self[name].replica.siblings.leads(self.clock.monotonic())

    def leaders(self, cluster: str = "fjord") -> list[str]:
        """The agents of a cluster that may write now."""
        return [n for n in sorted(self.running) if cluster_of(n) == cluster and self.leads(n)]

    async def pair(self) -> tuple[str, str]:
        """Start two agents of fjord and one of mesa; returns the writer and the stand-by."""
        await self.start_all("mesa-a", "fjord-a", "fjord-b")
        await self.until(lambda: self.seen.known and self.warm("fjord-a", "fjord-b"))
        (writer,) = self.leaders()
        return writer, "fjord-b" if writer == "fjord-a" else "fjord-a"

    def warm(self, *names: str) -> bool:
        """Whether these hold what the others see of fjord."""
        return all(self.held(name) == self.seen.version for name in names)

    def held(self, name: str) -> Any:
        """The version of fjord's origin that an agent holds."""
        own = self[name].replica.own
        if own.leading:
            return None if own.published_head is None else own.published_head.version
        return self[name].replica.remotes[FJORD].version

    @property
    def seen(self) -> RemoteOrigin:
        """What mesa holds of fjord."""
        return self["mesa-a"].replica.remotes.get(FJORD) or RemoteOrigin(FJORD)

    # ---- what is written -----------------------------------------------------------------------

    def write(self, cluster: str, *addresses: str) -> None:
        """Put a slice into a cluster's source, renamed into place."""
        path = self.folder / cluster / "source" / "cart-aa1.yaml"
        fresh = path.with_suffix(".tmp")
        fresh.write_text(_manifest(addresses))
        fresh.replace(path)

    def _files(self, cluster: str) -> list[Path]:
        # os.walk, since agents remove empty folders while we look.
        walked = os.walk(self.folder / cluster / "target")
        return sorted(
            Path(top) / name for top, _, names in walked for name in names if name.endswith(".yaml")
        )

    def written(self, cluster: str, origin: str) -> list[str]:
        """Addresses of ``origin`` in what was written into ``cluster``."""
        found: list[str] = []
        for path in self._files(cluster):
            with contextlib.suppress(FileNotFoundError):  # replaced while we look
                document = yaml.safe_load(path.read_text())
                if document["metadata"]["labels"][_SOURCE_CLUSTER] == origin:
                    found += [a for e in document["endpoints"] for a in e["addresses"]]
        return found

    def stats(self, cluster: str) -> dict[str, tuple[int, int]]:
        """Inode and time of every written file: a rewrite changes them."""
        paths = self._files(cluster)
        return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}

    def writes_of(self, name: str) -> int:
        """How many objects an agent has written."""
        importer = self[name].importer
        assert importer is not None
        counts = importer.counters().items()
        return sum(n for series, n in counts if series.startswith("materialize_writes_total"))

    # ---- waiting -------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], object], seconds: float = 60.0) -> float:
        """Wait until ``condition`` holds; returns how many (virtual) seconds that took."""
        began = self.clock.monotonic()
        while not condition():
            passed = self.clock.monotonic() - began
            assert passed < seconds, f"not within {seconds} s"
            for running in self.running.values():
                if running.task.done():
                    await running.task  # raises what it died of
            await self.clock.sleep(_LOOK_SECONDS)
        return self.clock.monotonic() - began

    async def sees(self, cluster: str, origin: str, *addresses: str) -> float:
        """Wait until exactly these are written; returns how long that took."""
        return await self.until(lambda: self.written(cluster, origin) == list(addresses))

    async def ask(self, name: str, method: str, *arguments: str) -> Any:
        """What an agent's operator API answers."""
        client = AgentClient(parse_address(f"unix:{self.folder / name}.sock"))
        return await asyncio.to_thread(getattr(client, method), *arguments)


@contextlib.asynccontextmanager
async def bed_of(folder: Path, siblings: int = 2, *, services: bool = False) -> AsyncIterator[Bed]:
    """A bed whose agents are ended with it."""
    bed = Bed(folder, siblings, services=services)
    try:
        yield bed
    finally:
        for name in sorted(bed.running):
            await bed.kill(name)
