"""The convergence machine: Hypothesis's stateful testing on a network of anyone's replicas.

Hypothesis chooses operations, exchanges, delayed and repeated deliveries, cuts and heals; at the
end of a run everything is exchanged and all replicas must show the same, and what they were told.
A run that fails is shortened and reported like a broken law.  Against
:func:`~crdt.testing.check.check_laws` it explores longer histories, under settings that a caller
may replace, as for every machine of Hypothesis's.
"""

from __future__ import annotations

from typing import TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from crdt.testing.catalogue import run_laws
from crdt.testing.check import LawBroken
from crdt.testing.laws import Contrast, RunLaw, guard
from crdt.testing.report import reported
from crdt.testing.schedule import (
    Deliver,
    Event,
    Heal,
    Schedule,
    Send,
    Split,
    Sync,
    operations,
)
from crdt.testing.shorten import shorten
from crdt.testing.subject import Crdt

S = TypeVar("S")

_NUMBERS = st.integers(0, 7)
_SETTINGS = settings(
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    stateful_step_count=30,
    suppress_health_check=list(HealthCheck),
)
"""Without Hypothesis's shrinking, which here is slower than our own and less thorough."""
_CHECKED = ("convergence", "delta convergence", "meaning")


class ConvergenceMachine(RuleBasedStateMachine):
    """What the machines of all types have in common; :func:`convergence_machine` makes one."""

    replicas = 2

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []

    def breach(self, schedule: Schedule) -> LawBroken | None:
        """The report of this history, if it breaks a law."""
        raise NotImplementedError

    def _pair(self, source: int, step: int) -> tuple[int, int]:
        """Two different replicas, from any two numbers."""
        first = source % self.replicas
        return first, (first + 1 + step % (self.replicas - 1)) % self.replicas

    @rule(source=_NUMBERS, step=_NUMBERS)
    def sync(self, source: int, step: int) -> None:
        """A message is sent and arrives."""
        self.events.append(Sync(*self._pair(source, step)))

    @rule(source=_NUMBERS, step=_NUMBERS)
    def send(self, source: int, step: int) -> None:
        """A message is sent and may arrive later."""
        self.events.append(Send(*self._pair(source, step)))

    @precondition(lambda self: any(isinstance(event, Send | Sync) for event in self.events))
    @rule(message=_NUMBERS)
    def deliver(self, message: int) -> None:
        """A message sent before arrives, perhaps again."""
        self.events.append(Deliver(message))

    @rule(replica=_NUMBERS)
    def split(self, replica: int) -> None:
        """A replica is cut off."""
        self.events.append(Split(replica % self.replicas))

    @precondition(lambda self: any(isinstance(event, Split) for event in self.events))
    @rule()
    def heal(self) -> None:
        """The cut is healed."""
        self.events.append(Heal())

    def teardown(self) -> None:
        """Everything is exchanged, and the laws of runs must hold."""
        broken = self.breach(Schedule(self.replicas, tuple(self.events)))
        if broken is not None:
            raise broken


def _told(crdt: Crdt[S], law: RunLaw[S], schedule: Schedule) -> LawBroken:
    shortest = shorten(schedule, lambda less: guard(law.holds, crdt, less) is not None)
    found = guard(law.holds, crdt, shortest) or Contrast("this run", "broke", "again it", "did not")
    return LawBroken([reported(crdt, law, shortest, found)])


def convergence_machine(crdt: Crdt[S], replicas: int = 3) -> type[ConvergenceMachine]:
    """A state machine over ``replicas`` (2 to 8) of ``crdt``; its ``TestCase`` runs under pytest.

    Raises ValueError for a type without operations.
    """
    if not crdt.operations:
        raise ValueError(f"{crdt.name} has no operations, so nothing can diverge")
    checked = [law for law in run_laws(crdt) if law.name in _CHECKED]

    # Told once: that is the shortest already, while Hypothesis goes on to shrink.
    told: dict[str, LawBroken] = {}

    class Machine(ConvergenceMachine):
        @rule(events=st.lists(operations(crdt, replicas), min_size=1, max_size=3))
        def operate(self, events: list[Event]) -> None:
            self.events += events

        def breach(self, schedule: Schedule) -> LawBroken | None:
            for law in checked:
                if guard(law.holds, crdt, schedule) is not None:
                    if law.name not in told:
                        told[law.name] = _told(crdt, law, schedule)
                    return told[law.name]
            return None

    Machine.replicas = replicas
    Machine.TestCase.settings = _SETTINGS
    Machine.__qualname__ = Machine.__name__ = f"Convergence[{crdt.name}]"
    return Machine
