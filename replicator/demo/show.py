"""The demonstration's screen: a live table on a terminal, plain lines in a pipe.

What stands where is computed by functions of a :class:`View`; the screen itself decides nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from replicator.demo import summary
from replicator.demo.lag import Delay, Spread
from replicator.demo.summary import Reading

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

RECENT_SECONDS = 10
"""What counts as lately for the lags that are shown."""


@dataclass(frozen=True, slots=True)
class View:
    """One moment of the demonstration."""

    seconds: float
    """Since all agents were ready."""
    reading: Reading
    lags: Mapping[tuple[str, str], Spread]
    """Of the last seconds, by (origin, reader)."""
    over: Spread | None
    """The same over the one-way delay, all pairs together."""
    cut: str | None
    """The region that is cut off."""


def _ms(value: float) -> str:
    return f"{value:.0f}"


def _age(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f}s"


def status_line(view: View) -> str:
    """Everything in one line, for pipes."""
    reading = view.reading
    held = " ".join(str(summary.elements(reading, region)) for region in reading)
    ages = [summary.oldest_head(reading, region) for region in reading]
    oldest = max((age for age in ages if age is not None), default=None)
    lag = "-" if view.over is None else f"{_ms(view.over.p50)}/{_ms(view.over.p99)}"
    return (
        f"{view.seconds:5.1f}s  changes {summary.changes(reading):5d}  elements {held}  "
        f"oldest head {_age(oldest)}  lag over delay p50/p99 {lag} ms  "
        f"digests {summary.agreement(reading, view.cut)}"
    )


def rows(view: View, delay: Delay) -> list[list[str]]:
    """The table's cells, two lines each: one row a region that reads, one column an origin."""
    found = []
    for reader, status in view.reading.items():
        cells = [f"{reader}\n{status['digest'][:10]}"]
        held, age = (
            summary.elements(view.reading, reader),
            summary.oldest_head(view.reading, reader),
        )
        cells.append(f"{held}\n{_age(age)}")
        for origin in view.reading:
            if origin == reader:
                cells.append("")
                continue
            lag = view.lags.get((origin, reader))
            if lag is not None:
                took = f"{_ms(lag.p50)}/{_ms(lag.p99)}"
            else:
                took = "cut off" if view.cut in {origin, reader} else "-"
            cells.append(f"{took}\n({delay(origin, reader):g})")
        found.append(cells)
    return found


def note(view: View) -> str:
    """The line below the table."""
    made = summary.changes(view.reading)
    return f"{made} changes made; digests {summary.agreement(view.reading, view.cut)}"


class Screen:
    """Shows views as they come and says what happens."""

    def __init__(self, delay: Delay, out: TextIO | None = None) -> None:
        """``delay`` is the one-way delay of a pair in milliseconds; ``out`` standard output."""
        self._delay = delay
        self._out = sys.stdout if out is None else out
        self._live: Live | None = None
        self._progress = ""

    @property
    def live(self) -> bool:
        """Whether there is a live table, or lines."""
        return self._live is not None

    def __enter__(self) -> Self:
        if self._out.isatty():
            from rich.console import Console  # noqa: PLC0415 - only terminals need it
            from rich.live import Live  # noqa: PLC0415

            console = Console(file=self._out, highlight=False, markup=False)
            self._live = Live(console=console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, text: str) -> None:
        """Tell one thing for good."""
        if self._live is None:
            print(text, file=self._out, flush=True)
        else:
            self._live.console.print(text, soft_wrap=True)

    def progress(self, text: str) -> None:
        """Tell how far the start is; in a pipe only what is new."""
        if self._live is not None:
            self._live.update(text, refresh=True)
        elif text != self._progress:
            self.say(text)
        self._progress = text

    def show(self, view: View) -> None:
        """Show where everything stands."""
        if self._live is None:
            self.say(status_line(view))
        else:
            self._live.update(self._table(view), refresh=True)

    def _table(self, view: View) -> RenderableType:
        from rich.console import Group  # noqa: PLC0415 - only terminals need it
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        heading = (
            f"{view.seconds:.0f} s  lag of the last {RECENT_SECONDS} s: p50/p99 ms (one-way delay)"
        )
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
        table.add_column("REGION\nDIGEST", no_wrap=True)
        table.add_column("ELEMENTS\nHEAD AGE", justify="right")
        for origin in view.reading:
            table.add_column(f"FROM\n{origin}", justify="right", overflow="fold")
        for cells in rows(view, self._delay):
            table.add_row(*(Text(cell, style="red" if "cut off" in cell else "") for cell in cells))
        equal = len(summary.digests(view.reading)) == 1
        return Group(Text(heading), table, Text(note(view), style="green" if equal else "yellow"))
