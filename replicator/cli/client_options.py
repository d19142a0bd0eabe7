"""Options shared by every command that asks a running agent, and what they mean."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from replicator.errors import InputError
from replicator.ops.address import DEFAULT_AGENT, parse_address
from replicator.ops.client import AgentClient
from replicator.ops.views import Selection

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


class Format(StrEnum):
    """How a command prints what it was told."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


AgentOption = Annotated[
    str,
    typer.Option(
        "--agent",
        metavar="ADDRESS",
        envvar="REPLICATOR_AGENT",
        help="Operator address of the agent: host:port or unix:/path.",
    ),
]
FormatOption = Annotated[Format, typer.Option("--output", "-o", help="Form of the output.")]
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Go on until Ctrl-C.")]
IntervalOption = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", min=0.01, help="Between two looks.")
]
CountOption = Annotated[
    int | None, typer.Option("--count", metavar="N", min=1, help="End after N lines or looks.")
]
ClusterOption = Annotated[
    str | None, typer.Option("--cluster", metavar="ID", help="Only what this cluster states.")
]
ServiceArgument = Annotated[
    str | None, typer.Argument(metavar="[NAMESPACE/SERVICE]", help="Only this service.")
]

DEFAULT_ADDRESS = DEFAULT_AGENT
DEFAULT_INTERVAL = 2.0


def connect(agent: str) -> AgentClient:
    """A client of the agent at the address text ``agent``; nothing is sent yet."""
    return AgentClient(parse_address(agent))


def selection(service: str | None, cluster: str | None) -> Selection:
    """What NAMESPACE/SERVICE and --cluster select; raises :class:`InputError` for no such names."""
    if cluster is not None and not _NAME.fullmatch(cluster):
        raise InputError(f"--cluster {cluster[:80]!r} is not a cluster id", cure="give a DNS label")
    if service is None:
        return Selection(cluster=cluster)
    namespace, separator, name = service.partition("/")
    if not (separator and _NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
        message = f"{service[:80]!r} is not NAMESPACE/SERVICE"
        raise InputError(message, cure="write for example shop/cart")
    return Selection(namespace, name, cluster)


def repeat(look: Callable[[], None], interval: float, count: int | None) -> None:
    """Call ``look`` every ``interval`` seconds, ``count`` times or for ever.

    On a terminal each look takes the place of the last one.
    """
    done = 0
    while True:
        if sys.stdout.isatty():
            typer.echo(_CLEAR, nl=False)
        look()
        done += 1
        if count is not None and done >= count:
            return
        time.sleep(interval)
