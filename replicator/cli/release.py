"""``replicator release``: carries out withdrawals that an agent holds back."""

from __future__ import annotations

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
from replicator.cli.policies import ServiceOption
from replicator.cli.shown import PEOPLE, show_document
from replicator.ops.decisions import released


def release(
    cluster: Annotated[
        str | None, typer.Argument(metavar="[CLUSTER]", help="Only of this cluster, not of all.")
    ] = None,
    service: ServiceOption = None,
    agent: AgentOption = DEFAULT_ADDRESS,
    output: FormatOption = Format.TABLE,
) -> None:
    """Carry out, at this agent, the mass withdrawals that it holds back (see status)."""
    released(cluster, service)
    told = connect(agent).release(cluster, service)
    if output not in PEOPLE:
        show_document(told, output)
        return
    for one in told["released"]:
        gone = f"{one['removed']} of {one['written']} addresses"
        say(f"{one['service']} of {one['cluster']}: {gone} go")
    if not told["released"]:
        say("nothing is held back")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(release.__name__)(release)
