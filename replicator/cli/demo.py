"""``replicator demo``: five regions on this machine."""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated

import typer

from replicator.cli.output import warn

_SIGNALLED = 128


def demo(
    *,
    seconds: Annotated[
        float, typer.Option(min=10, max=3600, help="About how long, once all agents are ready.")
    ] = 40.0,
    regions: Annotated[int, typer.Option(min=2, max=5, help="How many regions.")] = 5,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="What the changes come from.")
    ] = 1,
    no_wan: Annotated[bool, typer.Option("--no-wan", help="Leave the links undelayed.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="No cut and no end: show addresses, run until Ctrl-C.")
    ] = False,
) -> None:
    """Run five regions here: real agents and mutual TLS, churn, a cut, a heal, and what it took.

    Exit status 0 when all regions ended up equal, 1 when not; nothing is left behind.
    """
    # Imported here: the other commands should not wait for it.
    from replicator.demo.run import Plan, run  # noqa: PLC0415
    from replicator.demo.world import AgentTrouble  # noqa: PLC0415
    from replicator.system_clock import SystemClock  # noqa: PLC0415

    plan = Plan(seconds, regions, seed, wan=not no_wan, keep=keep)
    try:
        number = asyncio.run(run(plan, SystemClock()))
    except AgentTrouble as trouble:
        for line in trouble.log:
            warn(line)
        raise
    if number is not None and not (keep and number == signal.SIGINT):
        raise typer.Exit(_SIGNALLED + number)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)
