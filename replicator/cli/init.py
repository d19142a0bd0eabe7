"""``replicator init``: a clusterset to start from, in one folder."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from replicator.cli.output import say
from replicator.clusterset import Laid, lay_out, parse_member, peer_line


def _tell(folder: Path, laid: Laid) -> None:
    for name in laid.created:
        say(f"made {folder / name}")
    for name in laid.kept:
        say(f"kept {folder / name}, which was there")
    for name, peers in laid.lacking.items():
        say(f"add to peers in the agent.yaml of {name} and restart its agent:")
        for peer in peers:
            say(f"  {peer_line(peer)}")
    for member in laid.members:
        if member.cluster in laid.created:
            config = shlex.quote(str(folder / member.cluster / "agent.yaml"))
            say(f"run replicator agent --config {config}")
            say(f"ask replicator status --agent 127.0.0.1:{member.operator_port}")


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to make it.")],
    clusterset: Annotated[
        str, typer.Option("--clusterset", metavar="NAME", help="Name of the whole, a DNS label.")
    ],
    cluster: Annotated[
        list[str],
        typer.Option(
            "--cluster", metavar="ID=HOST:PORT", help="A cluster and how its peers reach its agent."
        ),
    ],
) -> None:
    """Make a clusterset: an authority, and for each cluster certificates and a configuration.

    Nothing that exists is overwritten; a second run adds clusters.
    """
    wanted = [parse_member(text) for text in cluster]
    _tell(folder, lay_out(folder, clusterset, wanted, datetime.now(UTC)))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("init")(init)
