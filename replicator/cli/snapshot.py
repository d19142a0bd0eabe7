"""``replicator snapshot``: a replica's committed state as a file, and element sets merged."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from cryptography import x509

from replicator.cli import columns as c
from replicator.cli.client_options import (
    DEFAULT_ADDRESS,
    AgentOption,
    Format,
    FormatOption,
    connect,
)
from replicator.cli.files import STDIN, DocumentFormat, read_file, shown_name
from replicator.cli.output import render, say
from replicator.cli.shown import PEOPLE, show_document, show_note, show_rows
from replicator.element_sets import Merge, parse_json
from replicator.errors import InputError
from replicator.ops.views import Json
from replicator.signing import TrustStore
from replicator.snapshots import Snapshot, parse
from replicator.verdicts import Verdict, verify

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="A snapshot; - is stdin.")]
DocumentOption = Annotated[
    DocumentFormat, typer.Option("--output", "-o", help="Form of the document.")
]

_ORIGINS = (
    c.field("CLUSTER", "cluster"),
    c.field("SHARD", "shard", wide=True, right=True),
    c.field("EPOCH", "epoch", right=True),
    c.field("STAMP", "stamp"),
    c.field("ENTRIES", "count", right=True),
    c.Column("ROOT", lambda row: c.text(str(row.get("root") or "")[:12])),
    c.field("FLOOR", "floor", wide=True, right=True),
)
_VERDICTS = (
    c.Column("CLUSTER", lambda row: row["cluster"] or "(the file)"),
    c.Column("GOOD", lambda row: c.text(row["good"])),
    c.field("ENTRIES", "entries", right=True),
    c.field("SIGNATURE", "signature"),
    c.Column("PROBLEMS", lambda row: c.text(len(row["problems"])), right=True),
)


def _read(name: str) -> tuple[Json, Snapshot]:
    shown = shown_name(name)
    document = parse_json(read_file(name), shown)
    try:
        return document, parse(document)
    except InputError as error:
        message = f"{shown}: {error.message}"
        raise InputError(message, cure=error.cure, code=error.code) from error


def _write(text: str, name: str) -> None:
    """Put ``text`` into the file ``name`` by rename, so that no half-written one is left.

    A former file is replaced; what is no file (a pipe, a terminal) is written to as it is.
    """
    try:
        target = Path(name).resolve()
        if Path(name).exists() and not target.is_file():
            Path(name).write_text(text, encoding="utf-8")
            return
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        message = f"cannot write {name}: {getattr(error, 'strerror', None) or error}"
        raise InputError(message, cure="name a file in a folder you may write") from error


def export(
    agent: AgentOption = DEFAULT_ADDRESS,
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE", help="Write or replace; - is stdout.")
    ] = STDIN,
    output: DocumentOption = DocumentFormat.JSON,
) -> None:
    """Write what the agent has committed, with the proof of every origin."""
    document = connect(agent).snapshot()
    if file == STDIN:
        show_document(document, output)
    else:
        _write(render(document, output.value), file)


def show(file: FileArgument, output: FormatOption = Format.TABLE) -> None:
    """Show what is in a snapshot file; nothing is verified."""
    document, snapshot = _read(file)
    if output not in PEOPLE:
        show_document(document, output)
        return
    entries, items = len(snapshot.entries), len(snapshot.items)
    say(f"SNAPSHOT  of {snapshot.cluster} in {snapshot.clusterset}, {snapshot.taken_at}")
    say(f"HOLDS     {entries} entries, {items} visible endpoints; not verified")
    say("")
    show_rows(_ORIGINS, [origin.readable for origin in snapshot.origins], output)
    if output is Format.WIDE:
        say("")
        show_rows(c.ENDPOINTS, snapshot.items, output)


def _trust(bundle: str | None, clusterset: str) -> TrustStore | None:
    if bundle is None:
        return None
    try:
        roots = x509.load_pem_x509_certificates(read_file(bundle))
    except ValueError as error:
        message = f"{shown_name(bundle)} is not a bundle of PEM certificates"
        raise InputError(message, cure="give the clusterset's ca.crt") from error
    return TrustStore(roots, clusterset)


def _show_verdicts(verdicts: list[Verdict], output: Format) -> None:
    rows = [verdict.to_json() for verdict in verdicts]
    if output in PEOPLE:
        show_rows(_VERDICTS, rows, output)
    else:
        show_document({"items": rows}, output)
    for verdict in verdicts:
        for problem in verdict.problems:
            show_note(f"{verdict.cluster or 'the file'}: {problem.message} ({problem.code})")


def check(
    file: FileArgument,
    trust_bundle: Annotated[
        str | None,
        typer.Option("--trust-bundle", metavar="FILE", help="Roots to trust, PEM (ca.crt)."),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Recompute a snapshot: bytes, counts, roots, signatures, chains; exit 1 if anything differs.

    Without --trust-bundle a signature shows only that the file is intact, not who wrote it.
    """
    _, snapshot = _read(file)
    trust = _trust(trust_bundle, snapshot.clusterset)
    verdicts = verify(snapshot, trust)
    _show_verdicts(verdicts, output)
    if trust is None:
        show_note("no --trust-bundle: who signed was not checked")
    if not all(verdict.good for verdict in verdicts):
        raise typer.Exit(1)


def merge(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Element sets; - is stdin.")
    ],
    output: DocumentOption = DocumentFormat.JSON,
) -> None:
    """Merge element sets by the rules of the LWW-Element-Set, in any order and with any repeats."""
    result = Merge()
    for name in files:
        shown = shown_name(name)
        result.fold(parse_json(read_file(name), shown), shown)
    show_document(result.document(), output)
    if result.same_tag_conflicts:
        count = result.same_tag_conflicts
        show_note(f"{count} tags were given with different contents; the greater was kept")


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True, help="A replica's state as a file.")
    group.command("export")(export)
    group.command("show")(show)
    group.command("verify")(check)
    group.command("merge")(merge)
    app.add_typer(group, name="snapshot")
