"""Showing what an agent or a file says, in the form that was asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from replicator.cli.client_options import Format
from replicator.cli.columns import Column, Row, cells
from replicator.cli.files import DocumentFormat
from replicator.cli.output import emit, emit_line, render, table, warn
from replicator.ops.assessment import Finding

PEOPLE = frozenset({Format.TABLE, Format.WIDE})
"""Forms for people; the others are documents."""


def show_rows(columns: Sequence[Column], rows: Sequence[Row], form: Format) -> None:
    """Print rows as a table, all columns of it for ``wide``."""
    shown, lines = cells(columns, rows, wide=form is Format.WIDE)
    right = [number for number, column in enumerate(shown) if column.right]
    table([column.title for column in shown], lines, right)


def show_document(document: Any, form: Format | DocumentFormat, *, line: bool = False) -> None:  # noqa: ANN401 - any JSON value
    """Print one document; with ``line`` one of many: a line of JSON, or a YAML document."""
    if not line:
        emit(document, form.value)
    elif form is Format.YAML:
        sys.stdout.write("---\n" + render(document, "yaml"))
        sys.stdout.flush()
    else:
        emit_line(document)


def show_note(text: str) -> None:
    """Print one line for people on standard error."""
    warn(f"replicator: {text}")


def show_findings(findings: Iterable[Finding]) -> None:
    """Print each finding as a line on standard error."""
    for finding in findings:
        show_note(str(finding))
