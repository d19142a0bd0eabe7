"""Which decision about traffic counts, what every replica makes of it, and what is written."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.model import ServiceKey
from crdt import Origin, OriginSet, Version, pack
from crdt.entries import ADD
from replicator import messages as m
from replicator.errors import InputError, NotGood
from replicator.kinds import ENDPOINT, POLICY, check_entry
from replicator.own_origin import POLICIES
from replicator.policies import (
    AS_CONFIGURED,
    DRAIN,
    DRAINED,
    DRAINED_LAST,
    FULL_WEIGHT,
    MOST_BYTES,
    MOST_ORDER,
    STALE,
    UNDRAINED,
    WEIGHT,
    Cell,
    Rules,
    Setting,
    Subject,
    Traffic,
    cell_of,
    decided,
    described,
    element_of,
    is_policy,
    merged,
    setting_of,
    subject_of,
    topic_about,
    topic_of,
    wanted,
)
from replicator.service_index import ServiceIndex
from replicator.steering import CELL_LIMIT
from tests.support.puppets import Author, Puppet
from tests.support.replicas import CART, Node, World

MESA = Subject(DRAIN, "mesa")
MESA_CART = Subject(DRAIN, "mesa", "shop", "cart")
SUBJECTS = (
    MESA,
    MESA_CART,
    Subject(WEIGHT, "mesa"),
    Subject(WEIGHT, "mesa", "shop", "cart"),
    Subject(STALE),
    Subject(STALE, "", "shop", "cart"),
)
names = st.sampled_from(("fjord", "mesa", "tundra"))
settings_of = {
    DRAIN: st.sampled_from((UNDRAINED, DRAINED, DRAINED_LAST)),
    WEIGHT: st.integers(0, FULL_WEIGHT),
    STALE: st.sampled_from(("keep", "not-ready", "withdraw", AS_CONFIGURED)),
}


@st.composite
def tables(draw: st.DrawFn) -> dict[bytes, Cell]:
    """What some origin states."""
    table: dict[bytes, Cell] = {}
    for subject in draw(st.lists(st.sampled_from(SUBJECTS), max_size=4, unique=True)):
        order, by = draw(st.integers(0, 3)), draw(names)
        setting = draw(settings_of[subject.what])
        table[topic_about(subject)] = Cell(order, by, pack([order, by, setting]))
    return table


def rules(*decisions: tuple[Subject, Setting]) -> Rules:
    return Rules({topic_about(s): decided(setting, "fjord", None) for s, setting in decisions})


# ---- which cell counts -------------------------------------------------------------------------


@given(st.lists(tables(), max_size=4))
def test_what_counts_depends_on_no_order_and_no_repetition(given_: list[dict[bytes, Cell]]) -> None:
    whole = merged(given_)
    for order in list(permutations(given_))[:6]:
        assert merged(order) == whole
    assert merged([*given_, *given_, whole]) == whole
    assert merged([merged(given_[:2]), merged(given_[2:])]) == whole


@given(st.lists(tables(), min_size=1))
def test_the_larger_order_counts_then_the_larger_name(found: list[dict[bytes, Cell]]) -> None:
    for topic, counts in merged(found).items():
        stated = [table[topic] for table in found if topic in table]
        assert (counts.order, counts.by) == max((cell.order, cell.by) for cell in stated)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_decision_survives_its_bytes_and_outdoes_what_was_known(subject: Subject) -> None:
    setting: Setting = {DRAIN: DRAINED, WEIGHT: 30, STALE: "withdraw"}[subject.what]
    topic = topic_about(subject)
    first = decided(setting, "fjord", None)
    second = decided(setting, "fjord", first)
    assert second > first
    element = element_of("tundra", topic)
    check_entry("tundra", element, ADD, second.value)
    assert is_policy(element)
    assert topic_of(element) == topic
    assert cell_of(element, second.value) == second
    assert subject_of(topic) == subject
    assert setting_of(subject, second) == setting
    last = Cell(MOST_ORDER, "mesa", b"")
    assert decided(setting, "mesa", last).order == MOST_ORDER


def test_other_kinds_are_no_policies() -> None:
    for kind in (ENDPOINT, 99, 128, -5):
        assert not is_policy(pack([kind, "fjord", "mesa", "x"]))


# ---- cells of newer versions -------------------------------------------------------------------


@pytest.mark.parametrize(
    "topic",
    [
        ["drain", "mesa", "shop"],
        ["drain", "mesa", "shop", "cart", "more"],
        ["drain", "", "", ""],
        ["drain", "mesa", "shop", ""],
        ["drain", "mesa", 5, ""],
        ["stale", "mesa", "", ""],
        ["mirror", "mesa", "", ""],
    ],
)
def test_a_topic_that_is_not_known_is_counted_and_not_acted_on(topic: list[Any]) -> None:
    assert subject_of(pack(topic)) is None
    found = Rules({pack(topic): decided(DRAINED, "fjord", None)})
    assert (found.unknown, found.settings) == (1, {})
    assert found.traffic("mesa", CART) == Traffic()


@pytest.mark.parametrize(
    ("subject", "value"),
    [
        (MESA, [1, "fjord", "half-drained"]),
        (MESA, [1, "fjord", 5]),
        (MESA, [1, "fjord", ["drained"]]),
        (Subject(WEIGHT, "mesa"), [1, "fjord", 101]),
        (Subject(WEIGHT, "mesa"), [1, "fjord", True]),
        (Subject(STALE), [1, "fjord", "panic"]),
    ],
)
def test_a_setting_that_is_not_known_counts_and_is_not_acted_on(
    subject: Subject, value: list[Any]
) -> None:
    cell = cell_of(element_of("fjord", topic_about(subject)), pack(value))
    assert cell is not None
    assert Rules({topic_about(subject): cell}).unknown == 1


def test_fields_of_a_later_version_change_nothing_of_a_decision() -> None:
    topic = topic_about(MESA)
    cell = cell_of(element_of("fjord", topic), pack([7, "fjord", DRAINED, "since", 5]))
    assert cell is not None
    assert Rules({topic: cell}).settings == {MESA: DRAINED}
    assert merged([{topic: cell}, {topic: decided(UNDRAINED, "mesa", None)}]) == {topic: cell}


@pytest.mark.parametrize(
    "value",
    [
        5,
        [1, "fjord"],
        [-1, "fjord", DRAINED],
        [MOST_ORDER + 1, "fjord", DRAINED],
        ["1", "fjord", DRAINED],
        [1, 5, DRAINED],
        [1, "Not a label", DRAINED],
        [1, "fjord", "x" * MOST_BYTES],
    ],
)
def test_a_value_without_order_and_author_takes_no_part_and_is_kept(value: object) -> None:
    element, raw = element_of("fjord", topic_about(MESA)), pack(value)
    assert cell_of(element, raw) is None
    check_entry("fjord", element, ADD, raw)
    elements = OriginSet()
    elements.advance([(element, 5, ADD, raw)], version=Version(1, 5), floor=0)
    index = ServiceIndex(elements)
    assert (index.policies, index.unread) == ({}, {element: raw})


# ---- what is asked for -------------------------------------------------------------------------


def test_what_is_asked_for_is_a_subject_and_a_setting() -> None:
    assert wanted("drain", "mesa", None, DRAINED) == (MESA, DRAINED)
    assert wanted("drain", "mesa", "shop/cart", UNDRAINED) == (MESA_CART, UNDRAINED)
    assert wanted("weight", "mesa", None, 0) == (Subject(WEIGHT, "mesa"), 0)
    assert wanted("stale", None, None, "keep") == (Subject(STALE), "keep")
    assert described(MESA_CART) == {"policy": "drain", "cluster": "mesa", "service": "shop/cart"}
    assert described(Subject(STALE)) == {"policy": "stale", "cluster": None, "service": None}


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (("mirror", "mesa", None, "on"), "'mirror' is no policy"),
        (("drain", None, None, DRAINED), "'None' is not a cluster id"),
        (("drain", "Not a label", None, DRAINED), "is not a cluster id"),
        (("drain", 5, None, DRAINED), "is not a cluster id"),
        (("drain", "mesa", "shop", DRAINED), "'shop' is not NAMESPACE/SERVICE"),
        (("drain", "mesa", 7, DRAINED), "'7' is not NAMESPACE/SERVICE"),
        (("drain", "mesa", "shop/Cart!", DRAINED), "is not NAMESPACE/SERVICE"),
        (("drain", "mesa", None, "half"), "'half' is no setting of drain"),
        (("weight", "mesa", None, 101), "'101' is no setting of weight"),
        (("weight", "mesa", None, "50"), "'50' is no setting of weight"),
        (("stale", "mesa", None, "keep"), "about services"),
        (("stale", None, None, True), "no setting of stale"),
    ],
)
def test_what_makes_no_sense_is_named(asked: tuple[Any, Any, Any, Any], named: str) -> None:
    with pytest.raises(InputError) as caught:
        wanted(*asked)
    assert named in caught.value.message
    assert caught.value.cure


# ---- what holds --------------------------------------------------------------------------------


def test_a_drain_of_the_cluster_or_of_the_service_drains() -> None:
    other = ServiceKey("shop", "stock")
    one = rules((MESA_CART, DRAINED))
    assert one.traffic("mesa", CART).drained
    assert not one.traffic("mesa", other).drained
    assert not one.traffic("fjord", CART).drained
    both = rules((MESA, DRAINED), (MESA_CART, UNDRAINED))
    assert both.traffic("mesa", CART).drained
    assert rules((MESA, DRAINED), (MESA_CART, DRAINED_LAST)).traffic("mesa", CART).last
    assert rules((MESA, UNDRAINED)).traffic("mesa", CART) == Traffic()


def test_the_weight_of_a_service_goes_before_that_of_its_cluster() -> None:
    both = rules((Subject(WEIGHT, "mesa"), 30), (Subject(WEIGHT, "mesa", "shop", "cart"), 100))
    assert both.traffic("mesa", CART).weight == 100
    assert both.traffic("mesa", ServiceKey("shop", "stock")).weight == 30
    assert both.in_force(Subject(WEIGHT, "mesa"))
    assert both.in_force(Subject(WEIGHT, "mesa", "shop", "cart"))
    assert not rules((Subject(WEIGHT, "mesa"), 100)).in_force(Subject(WEIGHT, "mesa"))
    assert not rules((MESA, UNDRAINED)).in_force(MESA)
    assert not rules().in_force(MESA)


def test_the_stale_policy_of_a_service_goes_before_that_of_all() -> None:
    one = Subject(STALE, "", "shop", "cart")
    found = rules((Subject(STALE), "withdraw"), (one, AS_CONFIGURED))
    assert found.stale_policy(CART) is None
    assert found.stale_policy(ServiceKey("shop", "stock")) == "withdraw"
    assert found.stale_policies == {"withdraw"}
    assert rules().stale_policy(CART) is None


# ---- whole replicas ----------------------------------------------------------------------------


def settle(world: World, seconds: float = 5.0) -> None:
    """Let time pass; whoever has something to publish does so."""
    end = world.now + seconds
    while world.now < end:
        for node in world.nodes.values():
            if node.replica.own.dirty and not node.replica.own.sealing:
                node.publish()
        world.run(0.25)


@pytest.fixture
def world() -> World:
    made = World("fjord", "mesa", "tundra", tick=0.25)
    for at, node in enumerate(made.nodes.values()):
        node.publish(f"10.{at}.0.1")
    made.mesh()
    settle(made)
    return made


def steer(node: Node, subject: Subject, setting: Setting) -> bool:
    """What an operator at ``node`` wants; whether that changes anything."""
    cell = node.replica.steering.decide(subject, setting)
    if cell is None:
        return False
    node.perform(node.replica.steer({topic_about(subject): cell}, node.wall_ns))
    return True


def holding(world: World, subject: Subject) -> set[Setting | None]:
    found = (node.replica.steering.rules.settings for node in world.nodes.values())
    return {settings.get(subject) for settings in found}


def test_a_decision_made_anywhere_holds_everywhere_and_names_its_services(world: World) -> None:
    assert steer(world["fjord"], MESA, DRAINED)
    settle(world)
    assert holding(world, MESA) == {DRAINED}
    assert world["tundra"].reviewed == [frozenset({CART})]
    assert not steer(world["tundra"], MESA, DRAINED), "it is so already"
    assert steer(world["tundra"], MESA, UNDRAINED)
    settle(world)
    assert holding(world, MESA) == {UNDRAINED}
    assert len(world.digests()) == 1


@pytest.mark.parametrize(("first", "second"), [("fjord", "tundra"), ("tundra", "fjord")])
def test_decisions_on_both_sides_of_a_cut_end_as_one(world: World, first: str, second: str) -> None:
    """At the same order the larger name counts, whoever decided first."""
    world.cut("fjord", "tundra")
    world.cut("mesa", "tundra")
    settle(world, 15.0)
    settings = {"fjord": DRAINED, "tundra": DRAINED_LAST}
    for name in (first, second):
        assert steer(world[name], MESA, settings[name])
        settle(world, 1.0)
    settle(world)
    assert len(holding(world, MESA)) == 2
    world.mesh()
    settle(world)
    assert len(holding(world, MESA)) == 1
    assert world["mesa"].replica.steering.rules.cells[MESA].by == "tundra"
    assert len(world.digests()) == 1


def test_a_decision_outlives_restarts_and_the_loss_of_its_author(world: World) -> None:
    assert steer(world["fjord"], MESA, DRAINED)
    settle(world)
    world.crash("fjord", empty=True)
    for name in ("mesa", "tundra"):
        world[name].save()
        world.crash(name)
    world.connect("mesa", "tundra")
    settle(world, 20.0)
    assert world["fjord"].replica.steering.rules.settings == {}
    for name in ("mesa", "tundra"):
        assert world[name].replica.steering.rules.settings == {MESA: DRAINED}
    world.connect("fjord", "mesa")
    settle(world)
    assert holding(world, MESA) == {DRAINED}


def test_what_is_unknown_here_is_not_decided(world: World) -> None:
    steering = world["fjord"].replica.steering
    for subject, code in (
        (Subject(DRAIN, "atoll"), "unknown_cluster"),
        (Subject(DRAIN, "mesa", "shop", "nothing"), "unknown_service"),
        (Subject(STALE, "", "shop", "nothing"), "unknown_service"),
    ):
        with pytest.raises(InputError) as caught:
            steering.decide(subject, DRAINED)
        assert caught.value.code == code
    assert steering.decide(Subject(STALE, "", "shop", "cart"), "keep") is not None
    assert steering.decide(Subject(STALE), AS_CONFIGURED) is None
    assert steering.decide(Subject(WEIGHT, "fjord"), FULL_WEIGHT) is None
    assert steering.decide(Subject(DRAIN, "fjord"), UNDRAINED) is None


def test_nothing_is_decided_about_a_forgotten_cluster(world: World) -> None:
    fjord = world["fjord"]
    world.cut("fjord", "mesa")
    world.cut("tundra", "mesa")
    settle(world, 70.0)
    told = fjord.replica.members.decide("forget", "mesa", world.now)
    assert told.cell is not None
    fjord.perform(fjord.replica.learn({"mesa": told.cell}, world.now, fjord.wall_ns))
    with pytest.raises(NotGood) as caught:
        fjord.replica.steering.decide(MESA, DRAINED)
    assert caught.value.code == "cluster_forgotten"


def test_beyond_the_limit_no_more_is_decided_here(world: World) -> None:
    fjord = world["fjord"]
    cell = decided(DRAINED, "fjord", None)
    news = {pack(["later", "mesa", "x", str(n)]): cell for n in range(CELL_LIMIT)}
    fjord.perform(fjord.replica.steer(news, fjord.wall_ns))
    assert fjord.replica.steering.not_understood == CELL_LIMIT
    with pytest.raises(NotGood) as caught:
        fjord.replica.steering.decide(MESA, DRAINED)
    assert caught.value.code == "too_many_policies"
    fjord.perform(fjord.replica.steer({topic_about(MESA): cell}, fjord.wall_ns))
    assert fjord.replica.steering.rules.settings == {MESA: DRAINED}, "it counts, and is not stated"
    assert len(fjord.replica.own.index.policies) <= CELL_LIMIT


def test_a_decision_about_one_service_touches_that_service(world: World) -> None:
    assert steer(world["fjord"], MESA_CART, DRAINED)
    assert world["fjord"].reviewed == [frozenset({CART})]


def test_of_one_origin_no_more_cells_than_the_limit_count() -> None:
    world = World("fjord", tick=0.25)
    fjord, loud = world["fjord"], Author(world, "mesa")
    cell = decided(DRAINED, "mesa", None)
    loud.own.state(
        POLICIES,
        {
            element_of("mesa", pack([DRAIN, f"c{n}", "", ""])): cell.value
            for n in range(CELL_LIMIT + 5)
        },
        loud.wall_ns,
    )
    loud.publish("10.20.1.4")
    peer = Puppet(fjord, "mesa")
    peer.hello()
    peer.say(m.Heads((loud.advert,)), loud.record)
    whole = loud.transfer()
    at, size = 0, 2000
    for start in range(0, len(whole.entries), size):
        part = whole.entries[start : start + size]
        last = start + size >= len(whole.entries)
        to, head = (whole.to, whole.head) if last else (part[-1][1], None)
        peer.say(m.Transfer(whole.origin, 1, True, at, to, part, head))  # noqa: FBT003
        at = to
    assert len(fjord.replica.remotes[Origin("mesa", 0)].index.policies) == CELL_LIMIT + 5
    assert len(fjord.replica.steering.table) == CELL_LIMIT


def test_a_cell_that_is_taken_back_counts_on(world: World) -> None:
    mesa = world["mesa"]
    assert steer(mesa, MESA, DRAINED)
    settle(world)
    mesa.replica.own.state(POLICIES, {}, mesa.wall_ns)
    settle(world)
    assert world["fjord"].replica.steering.rules.settings == {MESA: DRAINED}


def test_a_decision_is_known_from_the_disk_alone(world: World) -> None:
    fjord = world["fjord"]
    assert steer(fjord, MESA, DRAINED)
    settle(world)
    world.cut("fjord")
    fjord.unsaved.clear()
    fjord.disk.remotes.clear()
    world.crash("fjord")
    world.run(3.0)
    assert fjord.replica.remotes == {}
    assert fjord.replica.steering.rules.settings == {MESA: DRAINED}


def test_an_own_cell_that_cannot_be_read_stays_as_it_is(world: World) -> None:
    fjord = world["fjord"]
    element = pack([POLICY, "fjord", "later"])
    fjord.replica.own.state(POLICIES, {element: pack(5)}, fjord.wall_ns)
    settle(world)
    world.crash("fjord")
    world.mesh()
    settle(world, 20.0)
    assert steer(fjord, MESA, DRAINED)
    settle(world)
    stated = {entry[0]: entry[3] for entry in fjord.replica.own.elements.entries()}
    assert stated[element] == pack(5)


def test_a_standby_decides_nothing_and_states_what_counts_once_it_leads() -> None:
    world = World("fjord/1", "fjord/2", "mesa", tick=0.25)
    world["mesa"].publish("10.9.0.4")
    world.mesh()
    world["fjord/1"].lead(2)
    world["fjord/1"].publish("10.1.0.1")
    settle(world)
    standby = world["fjord/2"]
    with pytest.raises(NotGood) as caught:
        standby.replica.steering.decide(MESA, DRAINED)
    assert caught.value.code == "standing_by"
    assert steer(world["mesa"], MESA, DRAINED)
    settle(world)
    assert holding(world, MESA) == {DRAINED}
    assert standby.replica.own.index.policies == {}
    world.cut("fjord/1")
    standby.lead(3)
    settle(world)
    assert list(standby.replica.own.index.policies) == [topic_about(MESA)]
