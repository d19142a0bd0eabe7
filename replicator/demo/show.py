"""The demonstration's screen: a live table on a terminal, plain lines in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from replicator.demo import summary
from replicator.demo.summary import Pair, Reading


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


class Screen:
    """Shows readings as they come and says what happens."""

    def __init__(self, delay: Callable[[str, str], float]) -> None:
        """``delay`` is the one-way delay of a pair in milliseconds."""
        self._delay = delay
        self._console = Console(file=sys.stdout, highlight=False)
        self._live: Live | None = None
        self._news: list[str] = []

    @property
    def live(self) -> bool:
        """Whether this is a terminal."""
        return self._console.is_terminal

    def __enter__(self) -> Self:
        if self.live:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
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

    def say(self, text: str) -> None:
        """Tell one thing that happened."""
        self._news.append(text)
        if self._live is None:
            print(text, flush=True)  # noqa: T201 - this is the command's output
        else:
            self._live.console.print(text)

    def show(self, seconds: float, reading: Reading) -> None:
        """Show where everything stands ``seconds`` after the start."""
        if self._live is not None:
            self._live.update(self._table(seconds, reading), refresh=True)
            return
        equal = "equal" if len(summary.digests(reading)) == 1 else "differ (changes under way)"
        views = " ".join(f"{region}={summary.elements(reading, region)}" for region in reading)
        rows = summary.pairs(reading, self._delay)
        over = summary.slowest_over_delay(rows, lambda row: row.p99)
        made = summary.changes(reading)
        text = (
            f"{seconds:5.1f} s  changes {made:6d}  elements {views}  "
            f"p99 over the delay {_ms(over)} ms  digests {equal}"
        )
        print(text, flush=True)  # noqa: T201

    def _table(self, seconds: float, reading: Reading) -> Group:
        table = Table(title=f"{seconds:.0f} s", title_justify="left")
        for title in ("REGION", "ELEMENTS", "HEAD AGE", "DIGEST"):
            table.add_column(title)
        for origin in reading:
            table.add_column(f"from {origin}\np50/p99 ms", justify="right")
        rows = {(row.origin, row.reader): row for row in summary.pairs(reading, self._delay)}
        for region, status in reading.items():
            ages = [c["head_age_seconds"] or 0.0 for c in status["clusters"] if not c["self"]]
            cells = [region, str(summary.elements(reading, region))]
            cells += [f"{max(ages, default=0.0):.1f} s", status["digest"][:8]]
            for origin in reading:
                pair = rows.get((origin, region))
                text = "" if pair is None else f"{_ms(pair.p50)}/{_ms(pair.p99)} ({pair.delay:.0f})"
                cells.append(text)
            table.add_row(*cells)
        equal = len(summary.digests(reading)) == 1
        state = "digests equal" if equal else "digests differ: changes are under way"
        made = summary.changes(reading)
        note = f"{made} changes made; {state}; (n) is the one-way delay in ms"
        return Group(table, Text(note))

    def pairs(self, title: str, rows: list[Pair]) -> None:
        """Print a table of pairs for good."""
        self.say(title)
        for row in rows:
            self.say(
                f"  {row.origin:>15} -> {row.reader:<15} delay {row.delay:6.1f}  "
                f"p50 {_ms(row.p50):>5}  p99 {_ms(row.p99):>5}  max {_ms(row.longest):>5}  "
                f"({row.count} heads)"
            )
