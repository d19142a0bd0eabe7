"""Who belongs to the clusterset: decisions about clusters, and which one of them counts.

Any member may decide that a cluster is forgotten or admitted again.  A decision is one cell, the
element ``[member, author, subject]``, so each cell has one writer; which cell counts is found out
when read: the one with the larger order, then the larger name of who decided.  A cell's author
need not be who decided: every replica states again, unchanged, what counts for it (``by`` names who
decided), so a decision outlives the origin it was first written in.

Pure values; writing, dropping and refusing are :mod:`replicator.members`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from crdt import pack
from replicator.kinds import ADMIT, FORGET, MEMBER, MOST_MEMBER_NUMBER, unpack

_PREFIX = bytes((0x93, MEMBER))
"""How the canonical bytes of [MEMBER, author, subject] begin."""


class Cell(NamedTuple):
    """A decision about one cluster; of two the greater counts, field by field."""

    order: int
    by: str
    """The cluster whose operator decided."""
    decision: str
    """``forget`` or ``admit``."""
    minimum: int
    """The highest epoch of the cluster known to who decided: after ``admit`` only a higher one is
    taken."""


def is_member(element: bytes) -> bool:
    """Whether an element is a membership cell."""
    return element.startswith(_PREFIX)


def subject_of(element: bytes) -> str:
    """Whom a membership cell is about."""
    return str(unpack(element)[2])


def element_of(author: str, subject: str) -> bytes:
    """The element in which ``author`` states what counts about ``subject``."""
    return pack([MEMBER, author, subject])


def value_of(cell: Cell) -> bytes:
    """The value of a membership cell."""
    return pack([cell.decision, cell.order, cell.minimum, cell.by])


def cell_of(value: bytes) -> Cell:
    """The decision that the value of a checked membership cell states."""
    decision, order, minimum, by = unpack(value)[:4]
    return Cell(order, by, decision, minimum)


def merged(tables: Iterable[Mapping[str, Cell]]) -> dict[str, Cell]:
    """For each subject the cell that counts among all in ``tables``."""
    result: dict[str, Cell] = {}
    for table in tables:
        for subject, cell in table.items():
            known = result.get(subject)
            if known is None or known < cell:
                result[subject] = cell
    return result


def decided(decision: str, by: str, known: Cell | None, epoch: int) -> Cell:
    """A decision that outdoes ``known``; ``epoch`` is the highest seen of the subject.

    The minimum epoch never falls.
    """
    order = 1 if known is None else known.order + 1
    minimum = epoch if known is None else max(epoch, known.minimum)
    most = MOST_MEMBER_NUMBER
    return Cell(min(order, most), by, decision, min(minimum, most))


def is_forgotten(cell: Cell | None) -> bool:
    """Whether the subject of the cell that counts is forgotten."""
    return cell is not None and cell.decision == FORGET


def takes(cell: Cell | None, epoch: int) -> bool:
    """Whether state of ``epoch`` of the subject may be taken, shown and relayed."""
    return cell is None or (cell.decision == ADMIT and epoch > cell.minimum)
