"""The code on the page about the kit runs, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "testing-kit.md"
_BLOCK = re.compile(
    r"(?:<!-- needs (?P<needs>\w+) -->\n)?```python\n(?P<code>.*?)```\n"
    r"(?:\n```text\n(?P<out>.*?)```)?",
    re.DOTALL,
)


class Block(NamedTuple):
    needs: str | None
    code: str
    printed: str


BLOCKS = [
    Block(found["needs"], found["code"], found["out"] or "")
    for found in _BLOCK.finditer(PAGE.read_text("utf-8"))
]


def test_the_page_has_its_examples() -> None:
    assert len(BLOCKS) == 4
    assert [block.needs for block in BLOCKS] == [None, "pycrdt", None, None]


@pytest.mark.parametrize("block", BLOCKS, ids=["own", "library", "broken", "machine"])
def test_an_example_runs_and_prints_what_the_page_shows(block: Block) -> None:
    if block.needs is not None:
        pytest.importorskip(
            block.needs, reason=f"{block.needs} is a dependency of this example only"
        )
    space: dict[str, Any] = {"__name__": "page"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.code, str(PAGE), "exec"), space)  # noqa: S102 - our own page
    assert printed.getvalue() == block.printed
