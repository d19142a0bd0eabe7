"""What is handed to a person when a law is broken.

The shortest history that the search came down to, as a diagram and as a table of all replicas'
views side by side, and the two things that ought to have been alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from crdt.testing.diagram import svg_diagram, text_diagram
from crdt.testing.laws import Contrast, Law, RunLaw, StateLaw
from crdt.testing.recording import Recording, record
from crdt.testing.render import short
from crdt.testing.schedule import Schedule
from crdt.testing.subject import Crdt

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Report:
    """One broken law of one type, and the shortest way found to break it.

    Either ``recording`` tells the history, or ``states`` the states that were made without one.
    """

    name: str
    law: str
    words: str
    contrast: Contrast
    recording: Recording | None = None
    states: tuple[str, ...] = ()

    @property
    def history(self) -> tuple[str, ...]:
        """What happened, one line a step."""
        if self.recording is None:
            return tuple(f"{n} = {s}" for n, s in zip("abc", self.states, strict=False))
        return tuple(step.words for step in self.recording.steps[1:])

    def text(self) -> str:
        """All of it, to read in a terminal."""
        lines = [f"{self.name}: the law '{self.law}' is broken", f"  {self.words}", ""]
        if self.recording is None:
            lines += ["states", *(f"  {line}" for line in self.history)]
        else:
            steps = len(self.recording.steps) - 1
            lines += [f"shortest history found ({steps} steps)", text_diagram(self.recording), ""]
            lines += ["views after each step", view_table(self.recording)]
        return "\n".join([*lines, "", *self._contrast()])

    def _contrast(self) -> list[str]:
        found = self.contrast
        width = max(len(found.left), len(found.right))
        return [
            f"  {found.left:{width}}  {found.found}",
            f"  {found.right:{width}}  {found.wanted}".rstrip(),
        ]

    def svg(self) -> str:
        """The diagram as an SVG document; of a report without a history only its title."""
        recording = self.recording or Recording(("a", "b", "c"), ())
        return svg_diagram(recording, f"{self.name}: {self.law}")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equal length in columns; the first row is the heading."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:{w}}" for cell, w in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(f"  {line}".rstrip() for line in lines)


def view_table(recording: Recording) -> str:
    """Every replica's view after every step, changed ones marked by a star."""
    rows = [["", "event", *recording.names]]
    former: tuple[str, ...] = ()
    for number, step in enumerate(recording.steps):
        views = [
            f"{view} *" if former and former[at] != view else view
            for at, view in enumerate(step.views)
        ]
        rows.append([str(number), step.words, *views])
        former = step.views
    return table(rows)


def reported(crdt: Crdt[S], law: Law[S], schedule: Schedule, contrast: Contrast) -> Report:
    """The report of a schedule that breaks ``law``, which is run again for it."""
    settles, deltas = (law.settles, law.deltas) if isinstance(law, RunLaw) else (False, False)
    recording = record(crdt, schedule, settles=settles, deltas=deltas)
    return Report(crdt.name, law.name, law.words, contrast, recording)


def reported_states(
    crdt: Crdt[S], law: StateLaw[S], states: Sequence[S], contrast: Contrast
) -> Report:
    """The report of states that break ``law``."""
    texts = tuple(short(crdt.view(state)) for state in states)
    return Report(crdt.name, law.name, law.words, contrast, states=texts)
