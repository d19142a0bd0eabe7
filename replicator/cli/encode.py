"""``replicator encode``: Kubernetes objects, or a watch of them, to elements; needs no agent."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from clusters.errors import ManifestError
from clusters.manifests import Located, parse_manifests
from crdt import StampError
from crdt.stamp import parse_nanotime
from replicator.cli.files import DocumentFormat, read_file, shown_name
from replicator.cli.output import emit
from replicator.encoding import Encoder, Json, StreamEncoder, encode_objects
from replicator.errors import InputError


def _first_stamp(at: str | None) -> int:
    if at is None:
        return time.time_ns()
    try:
        return parse_nanotime(at)
    except StampError as error:
        message = f"--at: {error}"
        raise InputError(message, cure="give Unix time in nanoseconds", code=error.code) from error


def _objects(files: list[str]) -> list[Located]:
    found: list[Located] = []
    for name in files:
        try:
            found += parse_manifests(read_file(name), shown_name(name))
        except ManifestError as error:
            raise InputError(error.message, cure=error.cure) from error
    return found


def _document(files: list[str], encoder: Encoder, *, events: bool) -> Json:
    if not events:
        return encode_objects(encoder, _objects(files))
    stream = StreamEncoder(encoder)
    for name in files:
        stream.feed(read_file(name), shown_name(name))
    return stream.document()


def encode(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="YAML, JSON, Lists or JSON lines; - is stdin."),
    ],
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="ID", help="The cluster that owns the objects.")
    ],
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="NANOTIME", help="First stamp; the next count up by 1."),
    ] = None,
    *,
    events: Annotated[
        bool, typer.Option("--events", help="The input is a watch stream, one event a line.")
    ] = False,
    system: Annotated[
        bool, typer.Option("--system", help="Also kube-system and default/kubernetes.")
    ] = False,
    output: Annotated[
        DocumentFormat, typer.Option("--output", "-o", help="Form of the document.")
    ] = DocumentFormat.JSON,
) -> None:
    """Show the elements that Kubernetes objects stand for."""
    encoder = Encoder(cluster, _first_stamp(at), system=system)
    emit(_document(files, encoder, events=events), output.value)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("encode")(encode)
