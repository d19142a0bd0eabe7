"""Makes the vector files beside it: ``python -m tests.data.vectors.generate``.

Nothing in them is typed by hand.  A test compares the files with what this makes, and reads them
with a decoder that shares no code with the project.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from tests.data.vectors import histories, refusals, sets, wire
from tests.data.vectors.notation import Json

FOLDER = Path(__file__).parent
MAKERS: dict[str, Callable[[], Json]] = {
    "canonical.json": sets.canonical,
    "stamps.json": sets.stamps,
    "entries.json": sets.entries,
    "digests.json": sets.digests,
    "heads.json": wire.heads,
    "verification.json": wire.verification,
    "frames.json": wire.frames,
    "refused.json": refusals.refused,
    "summaries.json": wire.summaries,
    "histories.json": histories.histories,
}


def text_of(document: Json) -> str:
    """A file's text: one line for each case, so that differences can be read."""
    rows = []
    for key, value in document.items():
        if isinstance(value, list) and value and not isinstance(value[0], str):
            items = ",\n    ".join(json.dumps(item, ensure_ascii=True) for item in value)
            rows.append(f"  {json.dumps(key)}: [\n    {items}\n  ]")
        else:
            rows.append(f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=True)}")
    return "{\n" + ",\n".join(rows) + "\n}\n"


def main() -> None:
    """Write all files."""
    for name, maker in MAKERS.items():
        text = text_of(maker())
        (FOLDER / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name}: {len(text)} bytes\n")


if __name__ == "__main__":
    main()
