"""Five agents over an emulated wide-area network: real packets, counted on the wire.

``python -m bench.emulated --network COMMAND`` (root).  COMMAND is a program, not of this project,
that keeps one network namespace a region of :data:`~replicator.demo.regions.REGIONS`, delays what
passes between two by half their round trip, and understands the words

- ``addr REGION``: an address of it; ``exec REGION -- PROGRAM ...``: run it there, as the same pid;
- ``set all all loss_pct=N``, ``partition REGION``, ``heal``;
- ``stats --json``: {"total": {"tx_packets", "tx_bytes", ...}} of all that passed between regions.

Measured: from the observation of a change to its commit at each reader, at several rates and under
loss; bytes and packets of a lone change to all and of quiet links, with everything that TLS, TCP
and IP add; and how long after a cut of a minute, with a thousand changes missed, all hold the same.
Every process and the network share the machine: compare percentiles with the delays beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import machine
from bench.latency import ENDPOINTS, SERVICES, WARM_SECONDS, pairs_of, writers_of
from bench.worlds import READY_SECONDS, Bench, counter
from replicator.demo import summary
from replicator.demo.regions import REGIONS
from replicator.demo.world import Churn

_PORT = 8443
_QUIET = Churn(SERVICES, ENDPOINTS, 0.0, 1, 0.0)
_CUT, _CUT_SECONDS, _MISSED_PER_SECOND = "ap-northeast-1", 60.0, 17.0
_LONE_RATE = 0.5
_SETTLE_SECONDS = 30.0
_POLL_SECONDS = 0.05
_PARTS = ("p50", "p95", "p99", "max")


class Network:
    """The command that keeps the network."""

    def __init__(self, command: str) -> None:
        self.command = command

    def say(self, *words: str) -> str:
        """Have it do something; what it prints."""
        done = subprocess.run([self.command, *words], check=True, capture_output=True, text=True)  # noqa: S603
        return done.stdout.strip()

    def sent(self) -> tuple[int, int]:
        """Packets and bytes that passed between regions so far."""
        total = json.loads(self.say("stats", "--json"))["total"]
        return int(total["tx_packets"]), int(total["tx_bytes"])


class Emulated(Bench):
    """Agents that each run in their region of the network."""

    def __init__(self, folder: Path, churns: Mapping[str, Churn], network: Network) -> None:
        super().__init__(folder, churns, direct=True)
        self.network = network
        self._address = {region: network.say("addr", region).split()[0] for region in churns}

    def hosts(self, region: str) -> list[str]:
        """Its address on the network."""
        return [self._address[region]]

    def program(self, region: str) -> Sequence[str]:
        """The agent, run in its region."""
        return [self.network.command, "exec", region, "--", *super().program(region)]

    def config(self, region: str, ports: dict[tuple[str, str], int]) -> dict[str, Any]:
        """As elsewhere, with the addresses of the network."""
        document = super().config(region, ports)
        document["listen"] = f"{self._address[region]}:{_PORT}"
        for peer in document["peers"]:
            peer["url"] = f"https://{self._address[peer['cluster']]}:{_PORT}"
        return document


@contextlib.asynccontextmanager
async def _running(network: Network, churns: Mapping[str, Churn]) -> AsyncIterator[Emulated]:
    with tempfile.TemporaryDirectory(prefix="replicator-bench-") as folder:
        world = Emulated(Path(folder), churns, network)
        try:
            await world.start(datetime.now(UTC))
            await world.wait_ready(world.clock.monotonic() + READY_SECONDS, lambda _: None)
            await world.clock.sleep(WARM_SECONDS)
            yield world
        finally:
            network.say("heal")
            network.say("set", "all", "all", "loss_pct=0")
            await world.stop()


async def _latency(network: Network, rate: float, seconds: float, loss: float) -> dict[str, Any]:
    """Percentiles of a pair at ``rate`` changes per second and region."""
    churns = {region: Churn(SERVICES, ENDPOINTS, rate, 1, 0.0) for region in REGIONS}
    async with _running(network, churns) as world:
        network.say("set", "all", "all", f"loss_pct={loss:g}")
        await world.clock.sleep(WARM_SECONDS)
        before, (_, bytes_before) = await world.statuses(), network.sent()
        used = sum(world.usage(region).cpu_seconds for region in REGIONS)
        began = world.clock.monotonic()
        await world.clock.sleep(seconds)
        spent, after = world.clock.monotonic() - began, await world.statuses()
        used = sum(world.usage(region).cpu_seconds for region in REGIONS) - used
        sent = network.sent()[1] - bytes_before
    pairs = pairs_of(before, after)
    events = sum(counter(after[r]) - counter(before[r]) for r in REGIONS)
    return {
        "changes_per_second_per_region": rate,
        "loss_pct": loss,
        "source_events": events,
        "cores_used_by_agents": round(used / spent, 2),
        "wire_bytes_per_change_and_link": round(sent / max(1, events) / 4, 1),
        "writers": writers_of(pairs),
        "pairs": pairs,
        "worst": {part: max(pair[part] for pair in pairs) for part in _PARTS},
        "worst_over_delay": {
            part: round(max(pair[part] - pair["one_way_ms"] for pair in pairs), 1)
            for part in _PARTS
        },
    }


async def _wire(network: Network, seconds: float) -> dict[str, Any]:
    """Quiet links, and lone changes of one region, on the wire."""
    found: dict[str, Any] = {}
    for name, rate in (("quiet", 0.0), ("lone", _LONE_RATE)):
        churns = dict.fromkeys(REGIONS, _QUIET)
        churns[REGIONS[0]] = Churn(SERVICES, ENDPOINTS, rate, 1, 0.0)
        async with _running(network, churns) as world:
            events, sent = counter(await world.status(REGIONS[0])), network.sent()
            began = world.clock.monotonic()
            await world.clock.sleep(seconds)
            spent, now = world.clock.monotonic() - began, network.sent()
            events = counter(await world.status(REGIONS[0])) - events
        found[name] = {
            "seconds": round(spent, 2),
            "changes": events,
            "packets_per_second": (now[0] - sent[0]) / spent,
            "bytes_per_second": (now[1] - sent[1]) / spent,
        }
    quiet, lone = found["quiet"], found["lone"]
    each = lone["seconds"] / max(1, lone["changes"])
    links = len(REGIONS) * (len(REGIONS) - 1) / 2
    return {
        **found,
        "quiet_bytes_per_second_per_link": round(quiet["bytes_per_second"] / links, 1),
        "lone_bytes": round((lone["bytes_per_second"] - quiet["bytes_per_second"]) * each),
        "lone_packets": round((lone["packets_per_second"] - quiet["packets_per_second"]) * each, 1),
    }


async def _heal(network: Network) -> dict[str, Any]:
    """Seconds from the heal of a cut until all hold all that was said before it."""
    churns = dict.fromkeys(REGIONS, _QUIET)
    churns[REGIONS[0]] = Churn(SERVICES, ENDPOINTS, _MISSED_PER_SECOND, 1, 0.0)
    async with _running(network, churns) as world:
        events = counter(await world.status(REGIONS[0]))
        network.say("partition", _CUT)
        await world.clock.sleep(_CUT_SECONDS)
        reading = await world.statuses()
        wanted, missed = summary.own_versions(reading), counter(reading[REGIONS[0]]) - events
        network.say("heal")
        healed = world.clock.monotonic()
        while not summary.reached(await world.statuses(), wanted):
            if world.clock.monotonic() - healed > _SETTLE_SECONDS:
                message = "the regions did not come together again"
                raise RuntimeError(message)
            await world.clock.sleep(_POLL_SECONDS)
        seconds = world.clock.monotonic() - healed
    return {"cut_seconds": _CUT_SECONDS, "missed": missed, "seconds": round(seconds, 2)}


async def measure(command: str, seconds: float) -> dict[str, Any]:
    """All figures."""
    network = Network(command)
    return {
        "at_20": await _latency(network, 20.0, seconds, 0.0),
        "at_100": await _latency(network, 100.0, seconds, 0.0),
        "at_20_with_loss": await _latency(network, 20.0, seconds, 1.0),
        "wire": await _wire(network, 2 * seconds),
        "heal": await _heal(network),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the raw results."""
    parser = argparse.ArgumentParser(prog="python -m bench.emulated", description=__doc__)
    parser.add_argument("--network", required=True, metavar="COMMAND", help="keeps the regions")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each figure")
    options = parser.parse_args(argv)
    results: dict[str, Any] = {**machine.describe(), "load_before": machine.load()}
    results |= {"cores": machine.two_cores()}
    results["rows"] = {"h": asyncio.run(measure(options.network, options.seconds))}
    json.dump(results | {"load_after": machine.load()}, sys.stdout, indent=1, sort_keys=True)
    print()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
