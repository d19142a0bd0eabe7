"""``replicator status``: is this agent ready, who is fresh, how far behind, are digests equal."""

from __future__ import annotations

import typer

from replicator.cli import columns as c
from replicator.cli.client_options import (
    DEFAULT_ADDRESS,
    DEFAULT_INTERVAL,
    AgentOption,
    CountOption,
    Format,
    FormatOption,
    IntervalOption,
    WatchOption,
    connect,
    repeat,
)
from replicator.cli.output import say
from replicator.cli.shown import PEOPLE, show_document, show_findings, show_rows
from replicator.ops.assessment import Finding, assess, exit_status
from replicator.ops.views import Json


def summary(status: Json) -> list[tuple[str, str]]:
    """The lines above the table: what to know before looking at any one cluster."""
    agent, peers = status.get("agent") or {}, status.get("peers") or []
    peers = [peer for peer in peers if peer.get("state") != "not_chosen"]
    connected = sum(1 for peer in peers if peer.get("state") == "connected")
    region = f" in {agent['region']}" if agent.get("region") else ""
    return [
        ("cluster", f"{c.text(agent.get('cluster'))} of {c.text(agent.get('clusterset'))}{region}"),
        ("agent", _agent_line(agent)),
        *_role_line(agent),
        ("ready", _ready_line(agent)),
        ("converged", _converged_line(status)),
        ("peers", f"{connected} of {len(peers)} connected"),
        ("source", _side_line(status.get("source") or {})),
        ("target", _side_line(status.get("target") or {})),
    ]


def _agent_line(agent: Json) -> str:
    parts = (
        ("", "version"),
        ("instance ", "instance"),
        ("epoch ", "epoch"),
        ("since ", "started_at"),
    )
    return ", ".join(f"{name}{c.text(agent.get(key))}" for name, key in parts)


def _role_line(agent: Json) -> list[tuple[str, str]]:
    """Nothing of an agent that shares its cluster with no other."""
    holder = agent.get("lease_holder")
    if holder is None:
        return []
    whose = "this agent" if holder == agent.get("instance") else f"instance {c.text(holder)}"
    held = f"the lease is held by {whose}" if holder else "nobody holds the lease"
    return [("role", f"{c.text(agent.get('role'))}, {held}")]


def _ready_line(agent: Json) -> str:
    reasons = "; ".join(str(reason) for reason in agent.get("reasons") or [])
    word = c.text(agent.get("ready"))
    return f"{word}: {reasons}" if reasons else word


def _converged_line(status: Json) -> str:
    converged = status.get("converged")
    word = "not known yet" if converged is None else "yes" if converged else "no, digests differ"
    digest = str(status.get("digest") or "")[:16]
    return f"{word} (digest {digest})" if digest else word


def _side_line(side: Json) -> str:
    ages = [row.get("last_event_age_seconds") for row in side.get("resources") or []]
    heard = [age for age in ages if age is not None]
    age = f", heard {c.seconds(max(heard))} ago" if heard else ""
    return f"{c.text(side.get('kind'))}, {'synced' if side.get('synced') else 'not synced'}{age}"


def _show(status: Json, form: Format) -> None:
    if form not in PEOPLE:
        show_document(status, form)
        return
    width = max(len(name) for name, _ in summary(status))
    for name, told in summary(status):
        say(f"{name.upper():<{width}}  {told}")
    say("")
    rows = c.status_rows(status.get("clusters") or [], status.get("peers") or [])
    show_rows(c.STATUS, rows, form)


def status(
    agent: AgentOption = DEFAULT_ADDRESS,
    output: FormatOption = Format.TABLE,
    interval: IntervalOption = DEFAULT_INTERVAL,
    count: CountOption = None,
    *,
    watch: WatchOption = False,
) -> None:
    """Say how the agent and its clusters are; exit 1 when something is not good, 4 when refused.

    With --watch -o json each look is one line; the exit status is that of the last look.
    """
    client = connect(agent)
    findings: list[Finding] = []

    def look() -> None:
        document = client.status()
        findings[:] = assess(document)
        if watch and output is Format.JSON:
            show_document(document, output, line=True)
        else:
            _show(document, output)
        show_findings(findings)

    if watch:
        repeat(look, interval, count)
    else:
        look()
    if findings:
        raise typer.Exit(exit_status(findings))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status")(status)
