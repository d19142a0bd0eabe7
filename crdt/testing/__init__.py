"""A kit that tests anyone's replicated types: laws, schedules, planted mistakes (needs Hypothesis).

Start with :class:`Crdt` (say how your type is made, changed, merged) and :func:`check_laws`.
"""

from crdt.testing.catalogue import NAMES
from crdt.testing.check import (
    Budget,
    Finding,
    LawBroken,
    check_laws,
    examine,
    examine_states,
)
from crdt.testing.laws import Contrast
from crdt.testing.machine import ConvergenceMachine, convergence_machine
from crdt.testing.network import Network, played
from crdt.testing.recording import Recording, record
from crdt.testing.report import Report, view_table
from crdt.testing.schedule import (
    Deliver,
    Do,
    Event,
    Heal,
    Schedule,
    Send,
    Split,
    Sync,
    schedules,
)
from crdt.testing.subject import (
    At,
    Crdt,
    Delta,
    Did,
    Form,
    InPlace,
    Operation,
    in_place,
    operation,
)

__all__ = [
    "NAMES",
    "At",
    "Budget",
    "Contrast",
    "ConvergenceMachine",
    "Crdt",
    "Deliver",
    "Delta",
    "Did",
    "Do",
    "Event",
    "Finding",
    "Form",
    "Heal",
    "InPlace",
    "LawBroken",
    "Network",
    "Operation",
    "Recording",
    "Report",
    "Schedule",
    "Send",
    "Split",
    "Sync",
    "check_laws",
    "convergence_machine",
    "examine",
    "examine_states",
    "in_place",
    "operation",
    "played",
    "record",
    "schedules",
    "view_table",
]
