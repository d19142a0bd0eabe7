"""What a person reads: every kind of event drawn as text and as SVG, and the table of views."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from crdt.testing import (
    Crdt,
    Deliver,
    Delta,
    Do,
    Heal,
    Network,
    Schedule,
    Send,
    Split,
    Sync,
    operation,
    record,
    view_table,
)
from crdt.testing.catalogue import run_laws
from crdt.testing.correct import ELEMENTS, g_set
from crdt.testing.diagram import svg_diagram, text_diagram
from crdt.testing.laws import (
    delta_convergence,
    delta_idempotent,
    delta_is_state,
    meaning,
    means,
    ordered,
    pulled,
    round_trip,
)
from crdt.testing.logs import log
from crdt.testing.planted import tied_register
from crdt.testing.report import reported

LONG = Schedule(
    3,
    (
        Deliver(0),
        Heal(),
        Do(0, "add", ("x",)),
        Send(0, 1),
        Do(1, "add", ("y",), 2),
        Sync(1, 2),
        Sync(2, 0),
        Split(2),
        Send(2, 0),
        Sync(0, 2),
        Heal(),
        Deliver(0),
        Deliver(0),
    ),
)

DIAGRAM = """\
      a                b                c
      │                │                │
   1  ● add('x') at 1  │                │
      │                │                │
   2  ├── m1 ─┄        │                │
      │                │                │
   3  │                ● add('y') at 2  │
      │                │                │
   4  │                ├────── m2 ─────▶│
      │                │                │
   5  │◀───── m3 ──────┼────────────────┤
      │                │                │
   6  ═══ c is cut off ══════════════════════════════════
      │                │                │
   7  │                │        ✗───────┤
      │                │                │
   8  ├───────✗        │                │
      │                │                │
   9  ═══ the cut is healed ═════════════════════════════
      │                │                │
  10  │         ── m1 ▶│                │
      │                │                │
  11  │         ── m1 ▶│                │
      │                │                │
  12  ═══ everyone sends to everyone ════════════════════
      │                │                │"""

TABLE = """\
      event                          a             b             c
  ──  ─────────────────────────────  ────────────  ────────────  ────────────
  0   start                          {}            {}            {}
  1   a: add('x') at 1               {'x'} *       {}            {}
  2   m1 leaves a for b              {'x'}         {}            {}
  3   b: add('y') at 2               {'x'}         {'y'} *       {}
  4   m2 goes from b to c            {'x'}         {'y'}         {'y'} *
  5   m3 goes from c to a            {'x', 'y'} *  {'y'}         {'y'}
  6   c is cut off                   {'x', 'y'}    {'y'}         {'y'}
  7   a message from c to a is lost  {'x', 'y'}    {'y'}         {'y'}
  8   a message from a to c is lost  {'x', 'y'}    {'y'}         {'y'}
  9   the cut is healed              {'x', 'y'}    {'y'}         {'y'}
  10  m1 arrives at b from a         {'x', 'y'}    {'x', 'y'} *  {'y'}
  11  m1 arrives at b from a         {'x', 'y'}    {'x', 'y'}    {'y'}
  12  everyone sends to everyone     {'x', 'y'}    {'x', 'y'}    {'x', 'y'} *"""


def test_every_kind_of_event_has_its_place_in_the_text() -> None:
    recording = record(g_set(), LONG, settles=True)
    assert text_diagram(recording) == DIAGRAM
    assert view_table(recording) == TABLE


def test_the_svg_is_well_formed_and_holds_every_step() -> None:
    recording = record(g_set(), LONG, settles=True)
    text = svg_diagram(recording, "a < b & c")
    root = ET.fromstring(text)  # noqa: S314 - made by us, just now
    space = "{http://www.w3.org/2000/svg}"
    title = root.find(f"{space}title")
    assert title is not None
    assert title.text == "a < b & c"
    texts = [node.text for node in root.iter(f"{space}text")]
    for wanted in ("a", "b", "c", "add('x') at 1", "m1", "m2", "✗", "c is cut off", "{'x', 'y'}"):
        assert wanted in texts
    assert len(list(root.iter(f"{space}polygon"))) == 4
    assert text == svg_diagram(record(g_set(), LONG, settles=True), "a < b & c")
    assert "<title>space-time diagram</title>" in svg_diagram(recording)


def test_a_law_about_a_run_is_reported_with_its_end() -> None:
    crdt = tied_register()
    law = next(law for law in run_laws(crdt) if law.name == "convergence")
    schedule = Schedule(2, (Do(0, "set", ("x",)), Do(1, "set", ("y",))))
    found = law.holds(crdt, schedule)
    assert found is not None
    report = reported(crdt, law, schedule, found)
    assert report.text() == (
        "non-commutative tie: the law 'convergence' is broken\n"
        "  replicas that exchanged everything show the same\n"
        "\n"
        "shortest history found (3 steps)\n"
        "      a                b\n"
        "      │                │\n"
        "   1  ● set('x') at 1  │\n"
        "      │                │\n"
        "   2  │                ● set('y') at 1\n"
        "      │                │\n"
        "   3  ═══ everyone sends to everyone ═══\n"
        "      │                │\n"
        "\n"
        "views after each step\n"
        "     event                       a      b\n"
        "  ─  ──────────────────────────  ─────  ─────\n"
        "  0  start                       None   None\n"
        "  1  a: set('x') at 1            'x' *  None\n"
        "  2  b: set('y') at 1            'x'    'y' *\n"
        "  3  everyone sends to everyone  'x'    'y'\n"
        "\n"
        "  the view of a  'x'\n"
        "  the view of b  'y'"
    )


def test_laws_that_need_more_than_is_known_object_to_nothing() -> None:
    crdt: Crdt[int] = Crdt(name="bare", new=lambda _: 0, merge=max)
    nothing = Schedule(2)
    for law in (ordered, delta_is_state, delta_idempotent, round_trip):
        assert law(crdt, [0, 1, 2], nothing) is None
    assert delta_convergence(crdt, nothing) is None
    assert meaning(crdt, nothing) is None
    assert means(crdt, Network(crdt, ("a", "b")), 0) is None
    assert run_laws(crdt) == []


def test_an_order_of_its_own_is_asked_both_ways() -> None:
    crdt: Crdt[int] = Crdt(name="n", new=lambda _: 0, merge=max, order=lambda a, b: a <= b)
    nothing = Schedule(2)
    assert ordered(crdt, [1, 2, 0], nothing) is None
    assert ordered(crdt, [2, 1, 0], nothing) is None
    low: Crdt[int] = Crdt(name="n", new=lambda _: 0, merge=max, order=lambda a, b: b in {a, 3})
    found = ordered(low, [1, 2, 0], nothing)
    assert found is not None
    assert found.left == "a"


def test_a_type_that_never_comes_to_rest_is_left_after_a_few_rounds() -> None:
    growing: Crdt[int] = Crdt(
        name="grows",
        new=lambda _: 1,
        merge=lambda a, b: a + b,
        operations={"tick": operation(lambda s, _, e: s + len(e), ELEMENTS)},
    )
    network = Network(growing, ("a", "b"))
    network.settle()
    assert network.states == [2**4, 2**4]


def test_deltas_in_parts_all_arrive() -> None:
    events = tuple(Do(0, "append", (name,)) for name in "xyxyxyxy")
    network = Network(log(), ("a", "b"), deltas=True)
    for event in events:
        network.step(event)
    network.settle()
    assert network.states[1] == network.states[0]


def test_deltas_that_never_end_are_given_up() -> None:
    endless: Crdt[int] = Crdt(
        name="endless",
        new=lambda _: 0,
        merge=max,
        delta=Delta(make=lambda _mine, _known: 1, apply=lambda a, one: a + one),
    )
    assert pulled(endless, endless.delta or Delta(max, max), 0, 0) == 64
