"""What is printed: harmless on a terminal, exact in a pipe."""

from __future__ import annotations

import io
import json
import sys
import unicodedata
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from replicator.cli.output import emit, emit_line, escape, render, say, table, warn

Capture = pytest.CaptureFixture[str]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


class Terminal(io.StringIO):
    """Standard output of somebody who looks at it."""

    def isatty(self) -> bool:
        """It is one."""
        return True


@given(st.text())
def test_no_control_character_survives(text: str) -> None:
    for character in escape(text):
        assert unicodedata.category(character) not in {"Cc", "Cs", "Zl", "Zp"}
        assert unicodedata.bidirectional(character) not in {
            *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("caf\u00e9 \u65e5\u672c", "caf\u00e9 \u65e5\u672c"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\tb\nc\r", "a\\x09b\\x0ac\\x0d"),
        ("\x7f\x80\x9b", "\\x7f\\x80\\x9b"),
        ("\u202egpj.exe\u202c", "\\u202egpj.exe\\u202c"),
        ("\u2066\u2069\u200e\u200f\u061c", "\\u2066\\u2069\\u200e\\u200f\\u061c"),
        ("\u2028\ud800", "\\u2028\\ud800"),
    ],
)
def test_what_could_harm_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert escape(text) == shown


@given(JSON)
def test_json_is_one_document_in_ascii_with_a_final_newline(document: Any) -> None:
    for line in (False, True):
        text = render(document, "json", line=line)
        assert json.loads(text) == document
        assert text.isascii()
        assert text.endswith("\n")
        assert escape(text.replace("\n", "")) == text.replace("\n", "")
    assert text.count("\n") == 1


@given(JSON)
def test_yaml_is_one_document_that_reads_back(document: Any) -> None:
    text = render(document, "yaml")
    assert text.endswith("\n")
    assert yaml.safe_load(text) == document
    assert escape(text.replace("\n", "")) == text.replace("\n", "")


def test_keys_are_sorted() -> None:
    assert render({"b": 1, "a": {"d": 1, "c": 2}}, "json", line=True) == (
        '{"a": {"c": 2, "d": 1}, "b": 1}\n'
    )
    assert render({"b": 1, "a": 2}, "yaml") == "a: 2\nb: 1\n"


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_does_not_have_are_refused(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        render({"x": number}, "json")


def test_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="xml"):
        render({}, "xml")


def test_each_goes_to_its_stream(capsys: Capture) -> None:
    emit({"items": []})
    emit({"items": []}, "yaml")
    emit_line({"a": 1})
    say("told\x1b")
    warn("warned\n")
    out, err = capsys.readouterr()
    assert out == '{\n  "items": []\n}\nitems: []\n{"a": 1}\ntold\\x1b\n'
    assert err == "warned\\x0a\n"


def test_a_table_in_a_pipe_is_plain_and_aligned(capsys: Capture) -> None:
    table(["NAME", "N", ""], [["a", "1", "x"], ["longer\x1b", "22", ""]], right=[1])
    assert capsys.readouterr().out == "NAME         N\na            1  x\nlonger\\x1b  22\n"


def test_a_table_without_rows_is_its_titles(capsys: Capture) -> None:
    table(["A", "B"], [])
    assert capsys.readouterr().out == "A  B\n"


def test_a_table_on_a_terminal_holds_every_cell_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    table(["NAME", "N"], [["[bold]not markup[/bold]", "1"], ["x\x1b[2J", "22"]], right=[1])
    shown = terminal.getvalue()
    assert "[bold]not markup[/bold]" in shown
    assert "x\\x1b[2J" in shown
    assert "\x1b[2J" not in shown
    assert "\x1b[1m" in shown


def test_a_stream_without_utf_8_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    say("caf\u00e9")
    table(["caf\u00e9"], [["\u65e5"]])
    sys.stdout.flush()
    assert raw.getvalue() == b"caf\\xe9\ncaf\\xe9\n\\u65e5\n"
