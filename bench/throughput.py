"""(c) Sustained changes per second through journal, signature, mutual TLS and verified commit.

Two real agents on loopback without delay; one's simulated cluster tries 20,000 changes a second,
more than its process can take.  Counted at the receiver (elements changed by commits) and at the
source (events of the cluster, before several to one element become one change).
"""

from __future__ import annotations

from typing import Any

from bench.worlds import counter, row_of, running
from replicator.demo.world import Churn

WRITER, READER = "writer", "reader"
_WARM_SECONDS = 4.0
_FAR_ABOVE = 20_000.0
_QUIET = Churn(1, 1, 0.0, 0, 0.0)
SHAPES = {"wide": (1000, 20), "narrow": (20, 10)}
"""Services and endpoints per service: with many elements little collapses, with few nearly all."""


async def measure(shape: str, seconds: float, seed: int) -> dict[str, Any]:
    """The sustained rate with a cluster of this shape."""
    return await stream(*SHAPES[shape], _FAR_ABOVE, seconds, seed)


async def stream(
    services: int, endpoints: int, rate: float, seconds: float, seed: int
) -> dict[str, Any]:
    """What goes from a writer that tries ``rate`` events per second to a reader, and its cost."""
    churns = {WRITER: Churn(services, endpoints, rate, seed, 0.0), READER: _QUIET}
    async with running(churns, direct=True) as world:
        await world.clock.sleep(_WARM_SECONDS)
        readings = []
        for wait in (seconds, 0.0):
            at = world.clock.monotonic()
            status = {region: await world.status(region) for region in churns}
            readings.append(
                {
                    "at": at,
                    "events": counter(status[WRITER]),
                    "committed": (await world.committed(READER))[WRITER],
                    "commits": row_of(status[READER], WRITER)["convergence_ms"]["count"],
                    "bytes": next(
                        peer["bytes_received"]
                        for peer in status[READER]["peers"]
                        if peer["cluster"] == WRITER
                    ),
                    "writer_cpu": world.usage(WRITER).cpu_seconds,
                    "reader_cpu": world.usage(READER).cpu_seconds,
                }
            )
            await world.clock.sleep(wait)
        latency = row_of(status[READER], WRITER)["convergence_ms"]
    change = {name: readings[1][name] - readings[0][name] for name in readings[0]}
    return _figures(change, latency) | {
        "services": services,
        "endpoints_per_service": endpoints,
        "tried_per_second": rate,
        "readings": readings,
    }


def _figures(change: dict[str, float], latency: dict[str, Any]) -> dict[str, Any]:
    spent, committed = change["at"], change["committed"]
    return {
        "seconds": round(spent, 3),
        "source_events_per_second": round(change["events"] / spent),
        "committed_per_second": round(committed / spent),
        "commits_per_second": round(change["commits"] / spent, 1),
        "changes_per_commit": round(committed / max(1, change["commits"]), 1),
        "bytes_per_change": round(change["bytes"] / max(1, committed), 1),
        "writer_cpu_share": round(change["writer_cpu"] / spent, 2),
        "reader_cpu_share": round(change["reader_cpu"] / spent, 2),
        "committed_per_receiver_cpu_second": round(committed / max(0.01, change["reader_cpu"])),
        "events_per_writer_cpu_second": round(change["events"] / max(0.01, change["writer_cpu"])),
        "convergence_ms": latency,
    }
