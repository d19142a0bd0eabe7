"""``replicator watch``: every change as it is committed at one agent."""

from __future__ import annotations

import typer

from replicator.cli import columns as c
from replicator.cli.client_options import (
    DEFAULT_ADDRESS,
    AgentOption,
    ClusterOption,
    CountOption,
    Format,
    FormatOption,
    ServiceArgument,
    connect,
    selection,
)
from replicator.cli.output import say
from replicator.cli.shown import PEOPLE, show_document
from replicator.errors import NotGood
from replicator.ops.broadcast import LaggedError
from replicator.ops.client import AgentClient
from replicator.ops.views import Json, Selection

_SIGNS = {"add": "+", "remove": "-"}


def change_line(change: Json, *, wide: bool) -> str:
    """One change for people: time, sign, origin, service, address, ports, state, delay."""
    item = change.get("item") or {}
    parts = [
        c.moment(change.get("committed_at")),
        _SIGNS.get(str(change.get("op")), c.text(change.get("op"))),
        c.text(change.get("origin")),
        f"{c.text(item.get('namespace'))}/{c.text(item.get('service'))}",
        c.text(item.get("address")),
        c.ports(item.get("ports")),
        c.state(item) if change.get("op") == "add" else "gone",
        c.milliseconds(change.get("convergence_ms")),
    ]
    if wide:
        parts += [c.text(item.get("zone")), c.text(item.get("tag"))]
    return "  ".join(parts)


def follow(client: AgentClient, chosen: Selection, output: Format, count: int | None) -> None:
    """Show changes until ``count`` of them were shown; errors as :meth:`AgentClient.watch`."""
    shown = 0
    changes = client.watch(chosen)
    try:
        for change in changes:
            if output in PEOPLE:
                say(change_line(change, wide=output is Format.WIDE))
            else:
                show_document(change, output, line=True)
            shown += 1
            if shown == count:
                return
    except LaggedError as error:
        raise NotGood(error.message, cure=error.cure, code=error.code) from error
    finally:
        changes.close()


def watch(
    service: ServiceArgument = None,
    agent: AgentOption = DEFAULT_ADDRESS,
    cluster: ClusterOption = None,
    output: FormatOption = Format.TABLE,
    count: CountOption = None,
) -> None:
    """Show live changes, one a line, until Ctrl-C.

    Never skips silently: a reader too slow, or an agent that ends, ends the command with an error.
    """
    follow(connect(agent), selection(service, cluster), output, count)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("watch")(watch)
