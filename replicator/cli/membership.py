"""``replicator forget`` and ``replicator admit``: who belongs to the clusterset."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from replicator.cli.client_options import (
    DEFAULT_ADDRESS,
    AgentOption,
    Format,
    FormatOption,
    connect,
)
from replicator.cli.output import say
from replicator.cli.shown import PEOPLE, show_document
from replicator.errors import InputError
from replicator.identity import is_label
from replicator.kinds import ADMIT, FORGET
from replicator.ops.views import Json

ClusterArgument = Annotated[str, typer.Argument(metavar="CLUSTER", help="Id of the cluster.")]


def _decide(decision: str, cluster: str, agent: str) -> Json:
    if not is_label(cluster):
        raise InputError(f"{cluster[:80]!r} is not a cluster id", cure="give a DNS label")
    return connect(agent).decide(decision, cluster)


def _counts(told: Json) -> str:
    return f"{told['elements']} elements of {told['services']} services"


def forget(
    cluster: ClusterArgument,
    agent: AgentOption = DEFAULT_ADDRESS,
    output: FormatOption = Format.TABLE,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask on a terminal.")] = False,
) -> None:
    """Remove a cluster that left for good from every member; exit 1 while it shows signs of life.

    It is refused from then on, until it is admitted again.
    """
    if not yes and sys.stdin.isatty():
        typer.confirm(f"Forget {cluster} everywhere?", abort=True, err=True)
    told = _decide(FORGET, cluster, agent)
    if output in PEOPLE:
        say(f"{cluster} is forgotten: {_counts(told)} removed here")
    else:
        show_document(told, output)


def admit(
    cluster: ClusterArgument,
    agent: AgentOption = DEFAULT_ADDRESS,
    output: FormatOption = Format.TABLE,
) -> None:
    """Let a forgotten cluster come back; what it said before does not count any more."""
    told = _decide(ADMIT, cluster, agent)
    if output in PEOPLE:
        how = "if it was forgotten, it is taken again once it has opened a new epoch"
        say(f"{cluster} is admitted; {how}")
    else:
        show_document(told, output)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(FORGET)(forget)
    app.command(ADMIT)(admit)
