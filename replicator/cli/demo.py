"""``replicator demo``: five regions on this machine."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer


def demo(
    *,
    seconds: Annotated[
        float, typer.Option(min=10, max=3600, help="How long, once all agents are ready.")
    ] = 40.0,
    regions: Annotated[int, typer.Option(min=2, max=5, help="How many regions.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="What the changes come from.")] = 1,
    no_wan: Annotated[bool, typer.Option("--no-wan", help="Leave the links undelayed.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running until Ctrl-C.")] = False,
) -> None:
    """Run five regions here: real agents and mutual TLS, churn, a cut, a heal, and what it took."""
    # Imported here: the other commands should not wait for it.
    from replicator.demo.run import Demo, Plan  # noqa: PLC0415
    from replicator.system_clock import SystemClock  # noqa: PLC0415

    plan = Plan(seconds, regions, seed, wan=not no_wan, keep=keep)
    asyncio.run(Demo(plan, SystemClock()).run())


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)
