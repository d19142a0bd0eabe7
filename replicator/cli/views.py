"""``replicator peers``, ``clusters``, ``services`` and ``endpoints``: rows of one running agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import typer

from replicator.cli import columns as c
from replicator.cli.client_options import (
    DEFAULT_ADDRESS,
    DEFAULT_INTERVAL,
    AgentOption,
    ClusterOption,
    CountOption,
    Format,
    FormatOption,
    IntervalOption,
    ServiceArgument,
    WatchOption,
    connect,
    repeat,
    selection,
)
from replicator.cli.shown import PEOPLE, show_document, show_note, show_rows
from replicator.cli.watch import follow
from replicator.ops.views import Json


def _as_they_are(rows: Sequence[c.Row]) -> Sequence[c.Row]:
    return rows


def _list_command(
    name: str,
    columns: Sequence[c.Column],
    rows_of: Callable[[list[Json]], Sequence[c.Row]] = _as_they_are,
) -> Callable[..., None]:
    def command(
        agent: AgentOption = DEFAULT_ADDRESS,
        output: FormatOption = Format.TABLE,
        interval: IntervalOption = DEFAULT_INTERVAL,
        count: CountOption = None,
        *,
        watch: WatchOption = False,
    ) -> None:
        client = connect(agent)

        def look() -> None:
            items = client.items(name)
            if output in PEOPLE:
                show_rows(columns, rows_of(items), output)
            else:
                line = watch and output is Format.JSON
                show_document({"items": items}, output, line=line)

        if watch:
            repeat(look, interval, count)
        else:
            look()

    return command


def endpoints(
    service: ServiceArgument = None,
    agent: AgentOption = DEFAULT_ADDRESS,
    cluster: ClusterOption = None,
    output: FormatOption = Format.TABLE,
    count: CountOption = None,
    *,
    watch: WatchOption = False,
) -> None:
    """List the endpoints that consumers of this cluster may see, or with --watch their changes."""
    client, chosen = connect(agent), selection(service, cluster)
    if watch:
        follow(client, chosen, output, count)
        return
    items = client.endpoints(chosen)
    if output in PEOPLE:
        show_rows(c.ENDPOINTS, items, output)
    else:
        show_document({"items": items}, output)
    if not items and service is not None:
        show_note(f"no endpoint of {service} is known here; see replicator services")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands = (
        ("peers", c.PEERS, _as_they_are, "List the peers: link, round trip, digest, last error."),
        ("clusters", c.CLUSTERS, _as_they_are, "List the clusters and how far behind each one is."),
        (
            "services",
            c.SERVICES,
            c.service_rows,
            "List the services and which clusters offer them.",
        ),
    )
    for name, columns, rows_of, told in commands:
        app.command(name, help=told)(_list_command(name, columns, rows_of))
    app.command("endpoints")(endpoints)
