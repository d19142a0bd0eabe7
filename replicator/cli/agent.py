"""``replicator agent``: run one agent until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import secrets
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from replicator.config import load_config
from replicator.identity import PeerIdentity

COLLECT_AFTER = (50_000, 20, 50)
"""Allocations between passes of the cyclic collector: an agent holds hundreds of thousands of
small objects without cycles, and walking them took a seventh of its time under load."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("agent")(agent)


def agent(
    config: Annotated[Path, typer.Option("--config", help="The agent.yaml of this cluster.")],
) -> None:
    """Run the agent of one cluster in the foreground."""
    _log_to_stderr()
    gc.set_threshold(*COLLECT_AFTER)
    asyncio.run(_run(config))


def _log_to_stderr() -> None:
    import structlog  # noqa: PLC0415 - as in _run

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


async def _run(path: Path) -> None:
    # Imported here: the other commands should not wait a second for what they do not use.
    from replicator.agent import Agent  # noqa: PLC0415
    from replicator.system_clock import SystemClock  # noqa: PLC0415
    from replicator.transport.dialer import TlsDialer  # noqa: PLC0415
    from replicator.transport.doorway import Bounds  # noqa: PLC0415
    from replicator.transport.reload import LiveTls  # noqa: PLC0415
    from replicator.transport.server import TlsListener  # noqa: PLC0415

    config = load_config(path, os.environ)
    clock = SystemClock()
    identity = PeerIdentity(config.clusterset, config.cluster)
    tls = LiveTls(config.tls, identity, now=_now)
    rng = random.Random(secrets.randbits(64))  # noqa: S311 - jitter, and an instance id
    made = await Agent.build(config, clock, rng, tls, os.environ)
    gc.freeze()  # what was restored and imported stays: not to be walked again at each full pass
    stop = asyncio.Event()
    _stop_on_signals(stop)
    limits = config.limits
    bounds = Bounds(
        links=limits.links,
        links_per_peer=limits.links_per_peer,
        handshakes=limits.handshakes,
        handshakes_per_address=limits.handshakes_per_address,
    )
    listener = TlsListener(
        config.listen.host, config.listen.port, tls, admit=made.admit, bounds=bounds
    )
    await made.run(listener, TlsDialer(tls, _now), stop)


def _now() -> datetime:
    return datetime.now(UTC)


def _stop_on_signals(stop: asyncio.Event) -> None:
    """The first SIGTERM or SIGINT stops in order, a second one at once."""
    loop = asyncio.get_running_loop()

    def received(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)
