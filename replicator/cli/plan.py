"""``replicator plan``: elements to the objects a cluster would hold; needs no agent."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from clusters.errors import ManifestError
from clusters.manifests import Located, parse_documents, parse_manifests
from clusters.multicluster.conditions import instant
from crdt import Stamp, StampError
from replicator.cli.files import DocumentFormat, read_file, shown_name
from replicator.cli.output import emit
from replicator.errors import InputError
from replicator.items import Item
from replicator.multicluster_planning import plan_multicluster
from replicator.planning import StatedExport, plan_objects, read_exports, read_items
from replicator.system_clock import SystemClock


class PlanMode(StrEnum):
    """For which target mode to plan."""

    ENDPOINTSLICES = "endpointslices"
    DIRECTORY = "directory"
    MCS = "mcs"


def _stated(files: list[str]) -> tuple[list[Item], list[StatedExport]]:
    items: list[Item] = []
    exports: list[StatedExport] = []
    for name in files:
        source = shown_name(name)
        try:
            documents = parse_documents(read_file(name), source)
        except ManifestError as error:
            cure = "give a file that encode or snapshot export wrote"
            raise InputError(error.message, cure=cure) from error
        if not documents:
            message = f"{source}: it is empty"
            raise InputError(message, cure="give a file that encode or snapshot export wrote")
        for document, _ in documents:
            items += read_items(document, source)
            exports += read_exports(document, source)
    return items, exports


def _existing(name: str | None) -> list[Located]:
    if name is None:
        return []
    try:
        return parse_manifests(read_file(name), shown_name(name))
    except ManifestError as error:
        raise InputError(error.message, cure=error.cure) from error


def _check(cluster: str) -> None:
    try:
        Stamp(0, cluster)
    except StampError as error:
        message = f"--cluster: {error}"
        raise InputError(message, cure="give the id of a cluster") from error


def plan(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="What encode or snapshot export wrote; - is stdin."),
    ],
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="ID", help="The cluster to plan for.")
    ],
    existing: Annotated[
        str | None,
        typer.Option("--existing", metavar="FILE", help="Objects that exist; shows the writes."),
    ] = None,
    mode: Annotated[
        PlanMode, typer.Option("--mode", help="Target mode to plan for.")
    ] = PlanMode.ENDPOINTSLICES,
    output: Annotated[
        DocumentFormat, typer.Option("--output", "-o", help="Form of the document.")
    ] = DocumentFormat.JSON,
) -> None:
    """Show the objects a cluster would hold, or the writes that lead there."""
    _check(cluster)
    items, exports = _stated(files)
    objects = _existing(existing)
    if mode is PlanMode.MCS:
        now = instant(SystemClock().wall_ns())
        planned = plan_multicluster(cluster, items, exports, objects, now=now)
    else:
        planned = plan_objects(cluster, items, objects)
    for warning in planned.warnings:
        typer.echo(f"warning: {warning}", err=True)
    emit(planned.listing() if existing is None else planned.writes(), output.value)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(plan)
