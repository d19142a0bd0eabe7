"""What the manual says of this repository is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_NAMED = re.compile(r"`((?:tests|crdt|clusters|replicator|bench)/[\w/.-]+)`")
_LINKED = re.compile(r"\]\((?!https?:|#)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_pages_that_are_named_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    missing = [name for name in _NAMED.findall(text) if not (ROOT / name).exists()]
    missing += [name for name in _LINKED.findall(text) if not (page.parent / name).exists()]
    assert missing == []
