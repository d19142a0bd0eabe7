from __future__ import annotations

import io

from replicator.demo.lag import Spread
from replicator.demo.regions import one_way_ms
from replicator.demo.show import Screen, View, note, rows, status_line
from tests.replicator.demo.readings import cluster, status

NAMES = ("us-east-1", "eu-west-1", "sa-east-1")


def view(*, cut: str | None = None, over: Spread | None = None) -> View:
    """Three regions of which only two have measured each other."""
    reading = {
        name: status(name, *(cluster(other, own=other == name) for other in NAMES), digest=name)
        for name in NAMES
    }
    lags = {("us-east-1", "eu-west-1"): Spread(44.4, 68.0, 70.0, 9)}
    return View(12.34, reading, lags, over, cut)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_everything_in_one_line() -> None:
    assert status_line(view(over=Spread(9.4, 33.0, 34.0, 9))) == (
        " 12.3s  changes    15  elements 30 30 30  oldest head 0.5s  "
        "lag over delay p50/p99 9/33 ms  digests in transit"
    )


def test_what_was_not_measured_is_a_dash() -> None:
    line = status_line(View(0.0, {"us-east-1": status("us-east-1")}, {}, None, None))
    assert "oldest head -  lag over delay p50/p99 - ms" in line


def test_the_table_has_a_row_a_reader_and_a_column_an_origin() -> None:
    table = rows(view(), one_way_ms)
    assert [row[0] for row in table] == [f"{name}\n{name[:10]}" for name in NAMES]
    assert table[1] == ["eu-west-1\neu-west-1", "30\n0.5s", "44/68\n(35)", "", "-\n(90)"]


def test_pairs_with_the_region_cut_off_say_so_once_they_have_nothing_recent() -> None:
    table = rows(view(cut="sa-east-1"), one_way_ms)
    assert [row[4] for row in table] == ["cut off\n(57.5)", "cut off\n(90)", ""]
    assert table[2][2:] == ["cut off\n(57.5)", "cut off\n(90)", ""]
    assert note(view(cut="sa-east-1")) == "15 changes made; digests differ, sa-east-1 is cut off"


def test_in_a_pipe_progress_is_told_only_when_it_is_new() -> None:
    out = io.StringIO()
    with Screen(one_way_ms, out) as screen:
        assert not screen.live
        for text in ("one", "one", "two"):
            screen.progress(text)
        screen.show(view())
        screen.say("[bold]said[/bold]")
    assert out.getvalue().splitlines() == ["one", "two", status_line(view()), "[bold]said[/bold]"]


def test_on_a_terminal_the_table_is_live_and_what_is_said_stays() -> None:
    out = Terminal()
    with Screen(one_way_ms, out) as screen:
        assert screen.live
        screen.progress("0 of 3 answer")
        screen.show(view(cut="sa-east-1"))
        screen.say("[it] is said")
    shown = out.getvalue()
    assert "0 of 3 answer" in shown
    assert "44/68" in shown
    assert "cut off" in shown
    assert "12 s" in shown
    assert "[it] is said" in shown
    assert not screen.live
