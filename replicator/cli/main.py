"""The command ``replicator``: puts the groups together and turns errors into exit statuses.

0 good, 1 checked and not good, 2 bad usage or input, 3 cannot reach, 4 refused, 130 interrupted,
141 when the reader of a pipe went away.  An error is one line on standard error that says what to
do; a traceback is a defect.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import Annotated

import typer

from clusters.errors import ClusterError, ClusterUnavailableError
from crdt.errors import CrdtError
from replicator.cli import (
    agent,
    config,
    demo,
    encode,
    init,
    membership,
    pki,
    plan,
    policies,
    release,
    simulate,
    snapshot,
    status,
    views,
    watch,
)
from replicator.cli.output import warn
from replicator.errors import (
    NotGood,
    RefusedError,
    ReplicatorError,
    TransportError,
    UnreachableError,
)
from replicator.version import __version__

NOT_GOOD, BAD_INPUT, UNREACHABLE, REFUSED, INTERRUPTED, READER_GONE = 1, 2, 3, 4, 130, 141
_GROUPS = (
    *(demo, agent, init, pki, config, status, views, watch, encode, plan, snapshot, simulate),
    membership,
    policies,
    release,
)
_NAME = "replicator"
_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (NotGood, NOT_GOOD),
    (UnreachableError, UNREACHABLE),
    (TransportError, UNREACHABLE),
    (ClusterUnavailableError, UNREACHABLE),
    (RefusedError, REFUSED),
)


def _version(asked: bool) -> None:  # noqa: FBT001  Typer calls it so.
    if asked:
        typer.echo(f"{_NAME} {__version__}")
        raise typer.Exit


def _about(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Keep the endpoints of many clusters the same everywhere."""
    del version


def build() -> typer.Typer:
    """The whole command, new."""
    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_about)
    for group in _GROUPS:
        group.register(app)
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; ``argv`` is without the program's name."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = PurePath(sys.argv[0]).name if argv is None else _NAME
    return run_app(build(), arguments, _NAME if name == "__main__.py" else name)


def run_app(app: typer.Typer, arguments: list[str], name: str) -> int:
    """Run one command of ``app``, called ``name``, and return its exit status."""
    try:
        status = _invoke(app, arguments, name)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        return READER_GONE
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _invoke(app: typer.Typer, arguments: list[str], name: str) -> int:
    try:
        app(arguments, prog_name=name)
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):
            raise stop.__context__ from None
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else NOT_GOOD
    except (ReplicatorError, ClusterError, CrdtError) as error:
        return _told(error)
    return 0


def _told(error: ReplicatorError | ClusterError | CrdtError) -> int:
    """Say what went wrong, in one line, and how it counts."""
    text = str(error)
    if text:
        warn(f"{_NAME}: {text}")
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), BAD_INPUT)


def _forget_output() -> None:
    """Point standard output at nothing, so that the interpreter's last flush is quiet."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def run() -> None:
    """Entry point of the installed commands."""
    sys.exit(main())
