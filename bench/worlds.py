"""Real agents to measure: a :class:`World` whose regions churn differently, and what they cost.

CPU seconds and resident bytes are the kernel's of each agent process; counters are read from the
agents' own APIs.  ``direct`` worlds dial each other without a relay between.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from replicator.demo.regions import one_way_ms
from replicator.demo.world import AGENT, Churn, World
from replicator.system_clock import SystemClock

READY_SECONDS = 90.0
_CHANGES = re.compile(r'^replicator_changes_total\{origin="([^"]+)"\} (\S+)$', re.MULTILINE)
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def no_delay(_: str, __: str) -> float:
    """Links without delay."""
    return 0.0


def _silent(_: str) -> None:
    """Progress that nobody wants to see."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used since it began."""

    cpu_seconds: float
    resident_bytes: int


class Bench(World):
    """A world with a health listener per agent and churn of its own in every region."""

    def __init__(self, folder: Path, churns: Mapping[str, Churn], *, direct: bool) -> None:
        """One region per key of ``churns``."""
        self.clock = SystemClock()
        delay = no_delay if direct else one_way_ms
        fewest = min(churns.values(), key=lambda churn: churn.services)
        super().__init__(folder, list(churns), fewest, delay, self.clock, AGENT)
        self._churns = churns
        self._direct = direct
        self._health = {region: self._port() for region in churns}

    def config(self, region: str, ports: dict[tuple[str, str], int]) -> dict[str, Any]:
        """As in the demonstration, but for the source, the way to the peers, and metrics."""
        if self._direct:
            ports = {(region, there): self._listen[there] for there in self.regions}
        document = super().config(region, ports)
        churn = self._churns[region]
        document["source"] |= {
            "services": churn.services,
            "endpoints": churn.endpoints,
            "churn": churn.changes_per_second,
            "seed": churn.seed,
        }
        return {**document, "health": f"127.0.0.1:{self._health[region]}"}

    def usage(self, region: str) -> Usage:
        """CPU and memory of a region's agent, from the kernel."""
        folder = Path("/proc") / str(self._processes[region].pid)
        fields = (folder / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
        pages = (folder / "statm").read_text(encoding="ascii").split()[1]
        return Usage((int(fields[11]) + int(fields[12])) / _TICKS, int(pages) * _PAGE)

    async def committed(self, region: str) -> dict[str, int]:
        """Changes committed at ``region`` since its start, by origin."""
        url = f"http://127.0.0.1:{self._health[region]}/metrics"

        def ask() -> str:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return str(answer.read().decode())

        text = await asyncio.to_thread(ask)
        return {origin: int(float(count)) for origin, count in _CHANGES.findall(text)}

    async def status(self, region: str) -> dict[str, Any]:
        """The status of one region."""
        return await asyncio.to_thread(self.clients[region].status)

    async def link_bytes(self) -> dict[tuple[str, str], int]:
        """WebSocket bytes sent so far, by (from, to)."""
        statuses = await self.statuses()
        return {
            (region, peer["cluster"]): int(peer["bytes_sent"])
            for region, status in statuses.items()
            for peer in status["peers"]
        }


@contextlib.asynccontextmanager
async def running(churns: Mapping[str, Churn], *, direct: bool) -> AsyncIterator[Bench]:
    """A started world, every agent ready and linked; ended with the block."""
    with tempfile.TemporaryDirectory(prefix="replicator-bench-") as folder:
        world = Bench(Path(folder), churns, direct=direct)
        try:
            await world.start(datetime.now(UTC))
            await world.wait_ready(world.clock.monotonic() + READY_SECONDS, _silent)
            yield world
        finally:
            await world.stop()


def counter(status: Mapping[str, Any]) -> int:
    """Source events so far, before collapsing."""
    return int(status["source"]["counters"].get("simulated_changes_total", 0))


def row_of(status: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """What a status says of one origin."""
    return dict(next(row for row in status["clusters"] if row["cluster"] == origin))
