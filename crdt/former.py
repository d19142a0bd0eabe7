"""What a commit replaced, and what readers see differently since.

Told in slices and let go as it is told, since of a large set each takes long: a million entries are
freed in a tenth of a second, and compared in one.  Later commits may come between two slices; an
element is then told as it is by now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from crdt.entries import Stored, live_value, stamp_of
from crdt.entry_log import EntryLog
from crdt.staging import Change

Left = dict[bytes, Stored] | dict[bytes, Stored | None]


class Former:
    """The entries that a commit replaced, beside those that it made."""

    __slots__ = ("_after", "_entries", "_left", "_log", "_stamp")

    def __init__(
        self,
        left: Left,
        entries: Mapping[bytes, Stored],
        stamp: int,
        log: EntryLog | None = None,
    ) -> None:
        """``entries``, as of ``stamp``, came in place of ``left``.

        Without ``log`` only the elements in ``left`` have changed, else any up to ``stamp`` in it.
        """
        self._left = left
        self._entries = entries
        self._stamp = stamp
        self._log = log
        self._after = -1

    def differences(self, most: int | None = None) -> list[Change]:
        """What readers see differently: of the next ``most`` elements, or of all that remain."""
        looked_at: list[bytes] = []
        if self._log is not None:
            looked_at = self._come(self._log, most)
        remaining = None if most is None else most - len(looked_at)
        gone = islice(self._leaving(), remaining)
        changes = (self._change(*one) for one in [*self._paired(looked_at), *gone])
        return [change for change in changes if change is not None]

    @property
    def told(self) -> bool:
        """Whether nothing remains to be told."""
        return self._log is None and not self._left

    def _come(self, log: EntryLog, most: int | None) -> list[bytes]:
        """The next elements of the log up to the commit, but for superseded positions."""
        positions = list(islice(log.after(self._after), most))
        if most is None or len(positions) < most or positions[-1][0] >= self._stamp:
            self._log = None
        else:
            self._after = positions[-1][0]
        get, last = self._entries.get, self._stamp
        current = (one for one in positions if stamp_of(get(one[1], b"")) == one[0] <= last)
        return [element for _, element in current]

    def _paired(self, elements: list[bytes]) -> Iterator[tuple[bytes, Stored | None]]:
        for element in elements:
            yield element, self._left.pop(element, None)

    def _leaving(self) -> Iterator[tuple[bytes, Stored | None]]:
        """What was there and did not come again; only after everything that came."""
        while self._log is None and self._left:
            yield self._left.popitem()

    def _change(self, element: bytes, old: Stored | None) -> Change | None:
        new = self._entries.get(element)
        before, after = live_value(old), live_value(new)
        if before == after:
            return None
        return Change(element, before, after, self._stamp if new is None else stamp_of(new))
