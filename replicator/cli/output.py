"""What the command prints: documents for programs, tables and lines for people.

Text from outside never reaches a terminal raw: control characters (C0, DEL, C1), bidirectional
controls, line separators and lone surrogates are shown as escapes.  A document is exactly one,
with sorted keys and a final newline, in pure ASCII.  Colour only on a terminal.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import yaml

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_GAP = "  "


def _escape_one(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004


def escape(text: str) -> str:
    """``text`` as one harmless line."""
    return _UNSAFE.sub(_escape_one, text)


def render(document: Any, form: str, *, line: bool = False) -> str:  # noqa: ANN401  Any JSON value.
    """One document as ``json`` (with ``line`` on one line) or ``yaml``, ended by a newline.

    Raises :class:`ValueError` for another form, and for numbers that JSON does not have.
    """
    if form == "json":
        indent = None if line else 2
        text = json.dumps(document, allow_nan=False, indent=indent, sort_keys=True)
        return text.replace("\x7f", "\\u007f") + "\n"
    if form == "yaml":
        shown = yaml.dump(document, Dumper=_Dumper, sort_keys=True, default_flow_style=False)
        return str(shown).removesuffix("...\n")
    message = f"{form!r} is not a form of documents"
    raise ValueError(message)


def emit(document: Any, form: str = "json") -> None:  # noqa: ANN401  Any JSON value.
    """Print one document on standard output, ``json`` or ``yaml``."""
    sys.stdout.write(render(document, form))


def emit_line(document: Any) -> None:  # noqa: ANN401  Any JSON value.
    """Print one document as one line of JSON, at once: the next may be long in coming."""
    sys.stdout.write(render(document, "json", line=True))
    sys.stdout.flush()


def say(text: str) -> None:
    """Print one line for people on standard output."""
    sys.stdout.write(_printable(escape(text), sys.stdout) + "\n")


def warn(text: str) -> None:
    """Print one line for people on standard error."""
    sys.stderr.write(_printable(escape(text), sys.stderr) + "\n")


def _printable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Print rows under titles; the columns numbered in ``right`` stand to the right.

    A terminal gets bold titles and cells folded to its width; a pipe gets plain aligned columns,
    two spaces apart, without trailing spaces.
    """
    safe = [[escape(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _rich_table(titles, safe, right)
        return
    lines = [list(titles), *safe]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    for line in lines:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        sys.stdout.write(_printable(_GAP.join(cells).rstrip(), sys.stdout) + "\n")


def _rich_table(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> None:
    from rich.console import Console  # noqa: PLC0415  Slow to import, and only terminals need it.
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column, title in enumerate(titles):
        shown.add_column(title, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    Console(file=sys.stdout).print(shown)
