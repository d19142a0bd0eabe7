"""``replicator drain``, ``undrain``, ``weight``, ``stale`` and ``policies``: where traffic goes."""

from __future__ import annotations

from typing import Annotated

import typer

from replicator.cli import columns as c
from replicator.cli.client_options import (
    DEFAULT_ADDRESS,
    AgentOption,
    Format,
    FormatOption,
    connect,
)
from replicator.cli.output import say
from replicator.cli.shown import PEOPLE, show_document, show_note, show_rows
from replicator.ops.views import Json
from replicator.policies import (
    DRAIN,
    DRAINED,
    DRAINED_LAST,
    FULL_WEIGHT,
    STALE,
    STALE_POLICIES,
    UNDRAINED,
    WEIGHT,
    Setting,
    wanted,
)

ClusterArgument = Annotated[str, typer.Argument(metavar="CLUSTER", help="Id of the cluster.")]
ServiceOption = Annotated[
    str | None,
    typer.Option("--service", metavar="NAMESPACE/SERVICE", help="Only this service, not all."),
]


def _steer(
    what: str, cluster: str | None, service: str | None, setting: Setting, agent: str
) -> Json:
    wanted(what, cluster, service, setting)
    return connect(agent).steer(what, cluster, service, setting)


def _show(told: Json, said: str, output: Format) -> None:
    if output not in PEOPLE:
        show_document(told, output)
        return
    about = told["service"] or f"{told['services']} services known here"
    again = "" if told["changed"] else ", as before"
    say(f"{said}{again}: {about}")
    if told["kept"]:
        last = f"{told['kept']} services keep their last ready endpoints there"
        show_note(f"{last}; drain --last takes these too")


def drain(
    cluster: ClusterArgument,
    service: ServiceOption = None,
    agent: AgentOption = DEFAULT_ADDRESS,
    output: FormatOption = Format.TABLE,
    *,
    last: Annotated[
        bool, typer.Option("--last", help="Also where no other ready endpoint is left.")
    ] = False,
) -> None:
    """Have a cluster's endpoints written as not ready in all other clusters."""
    told = _steer(DRAIN, cluster, service, DRAINED_LAST if last else DRAINED, agent)
    _show(told, f"{cluster} is drained", output)


def undrain(
    cluster: ClusterArgument,
    service: ServiceOption = None,
    agent: AgentOption = DEFAULT_ADDRESS,
    output: FormatOption = Format.TABLE,
) -> None:
    """End a drain; one of a single service and one of the whole cluster end each for itself."""
    told = _steer(DRAIN, cluster, service, UNDRAINED, agent)
    _show(told, f"{cluster} is not drained", output)


def weight(
    cluster: ClusterArgument,
    percent: Annotated[
        int, typer.Argument(min=0, max=FULL_WEIGHT, help="Share of the endpoints that is used.")
    ],
    service: ServiceOption = None,
    agent: AgentOption = DEFAULT_ADDRESS,
    output: FormatOption = Format.TABLE,
) -> None:
    """Have only a share of a cluster's ready endpoints ready in all other clusters."""
    told = _steer(WEIGHT, cluster, service, percent, agent)
    _show(told, f"{cluster} has a weight of {percent} %", output)


def stale(
    policy: Annotated[str, typer.Argument(metavar="POLICY", help=", ".join(STALE_POLICIES))],
    service: ServiceOption = None,
    agent: AgentOption = DEFAULT_ADDRESS,
    output: FormatOption = Format.TABLE,
) -> None:
    """Decide for all clusters what they do with the endpoints of one that fell silent."""
    told = _steer(STALE, None, service, policy, agent)
    _show(told, f"the stale policy is {policy}", output)


def policies(agent: AgentOption = DEFAULT_ADDRESS, output: FormatOption = Format.TABLE) -> None:
    """List what was decided about traffic, and by whom."""
    items = connect(agent).items("policies")
    if output in PEOPLE:
        show_rows(c.POLICIES, items, output)
    else:
        show_document({"items": items}, output)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (drain, undrain, weight, stale, policies):
        app.command(command.__name__)(command)
