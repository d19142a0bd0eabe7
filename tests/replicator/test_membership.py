"""Which decision about a cluster counts, and what every replica makes of it."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.model import ServiceKey
from crdt import Origin, pack
from crdt.entries import ADD
from replicator import messages as m
from replicator.errors import InputError, NotGood
from replicator.kinds import ADMIT, ENDPOINT, FORGET, MOST_MEMBER_NUMBER, check_entry
from replicator.members import ALIVE_SECONDS, CELL_LIMIT
from replicator.membership import (
    Cell,
    cell_of,
    decided,
    element_of,
    is_forgotten,
    is_member,
    merged,
    subject_of,
    takes,
    value_of,
)
from replicator.own_origin import MEMBERS
from tests.support.puppets import Author, Puppet
from tests.support.replicas import CART, Node, World

NAMES = ("fjord", "mesa", "steppe", "tundra")
names = st.sampled_from(NAMES)
cells = st.builds(
    Cell,
    order=st.integers(0, 4),
    by=names,
    decision=st.sampled_from([FORGET, ADMIT]),
    minimum=st.integers(0, 3),
)
tables = st.dictionaries(names, cells, max_size=4)


# ---- which cell counts -------------------------------------------------------------------------


@given(st.lists(tables, max_size=4), st.randoms(use_true_random=False))
def test_what_counts_depends_on_no_order_and_no_repetition(
    given_: list[dict[str, Cell]], dice: object
) -> None:
    whole = merged(given_)
    for order in list(permutations(given_))[:6]:
        assert merged(order) == whole
    assert merged([*given_, *given_, whole]) == whole
    assert merged([merged(given_[:2]), merged(given_[2:])]) == whole


@given(st.lists(cells, min_size=1))
def test_the_larger_order_counts_then_the_larger_name(found: list[Cell]) -> None:
    counts = merged({"mesa": cell} for cell in found)["mesa"]
    assert (counts.order, counts.by) == max((cell.order, cell.by) for cell in found)


@given(cells)
def test_a_cell_survives_its_bytes(cell: Cell) -> None:
    element, value = element_of("fjord", "mesa"), value_of(cell)
    check_entry("fjord", element, ADD, value)
    assert cell_of(value) == cell
    assert is_member(element)
    assert subject_of(element) == "mesa"


def test_other_kinds_are_no_cells() -> None:
    for kind in (ENDPOINT, 99, 128, -5):
        assert not is_member(pack([kind, "fjord", "mesa"]))


@given(cells | st.none(), st.integers(0, 5), names)
def test_a_decision_outdoes_what_was_known(known: Cell | None, epoch: int, by: str) -> None:
    for decision in (FORGET, ADMIT):
        cell = decided(decision, by, known, epoch)
        assert (cell.decision, cell.by) == (decision, by)
        assert cell.minimum >= epoch
        assert known is None or (cell > known and cell.minimum >= known.minimum)


def test_numbers_end_where_an_epoch_is_left_above_them() -> None:
    last = Cell(MOST_MEMBER_NUMBER, "mesa", FORGET, MOST_MEMBER_NUMBER)
    cell = decided(ADMIT, "fjord", last, MOST_MEMBER_NUMBER + 5)
    check_entry("fjord", element_of("fjord", "mesa"), ADD, value_of(cell))
    assert takes(cell, MOST_MEMBER_NUMBER + 1)


def test_nothing_is_taken_of_the_forgotten_and_only_higher_epochs_of_the_admitted() -> None:
    forget = decided(FORGET, "fjord", None, 3)
    admit = decided(ADMIT, "fjord", forget, 0)
    assert [is_forgotten(cell) for cell in (None, forget, admit)] == [False, True, False]
    assert [takes(None, epoch) for epoch in (0, 1)] == [True, True]
    assert [takes(forget, epoch) for epoch in (3, 4)] == [False, False]
    assert [takes(admit, epoch) for epoch in (3, 4)] == [False, True]


# ---- whole replicas ----------------------------------------------------------------------------


def settle(world: World, seconds: float = 5.0) -> None:
    """Let time pass; whoever has something to publish does so."""
    end = world.now + seconds
    while world.now < end:
        for node in world.nodes.values():
            if node.replica.own.dirty and not node.replica.own.sealing:
                node.publish()
        world.run(0.25)


def started(*clusters: str, meshed: bool = True) -> World:
    """Nodes with an endpoint each that know one another."""
    world = World(*clusters, tick=0.25)
    for at, node in enumerate(world.nodes.values()):
        node.replica.expect_members(set(clusters) - {node.name}, 0.0)
        node.publish(f"10.{at}.0.1")
    if meshed:
        world.mesh()
    settle(world)
    return world


def decide(node: Node, decision: str, cluster: str) -> tuple[int, int]:
    """What an operator at ``node`` wants; elements and services that go there."""
    world = node.world
    told = node.replica.members.decide(decision, cluster, world.now)
    if told.cell is not None:
        news = {cluster: told.cell}
        node.perform(node.replica.learn(news, world.now, node.wall_ns))
    return told.elements, told.services


def gone(world: World, cluster: str) -> None:
    """Cut a cluster off for longer than signs of life count."""
    world.cut(cluster)
    settle(world, ALIVE_SECONDS + 1)


def views(world: World, cluster: str) -> dict[str, list[str]]:
    """What each other node shows of ``cluster``."""
    return {n: node.sees(cluster) for n, node in world.nodes.items() if n != cluster}


def rejects(world: World, receiver: str) -> list[str]:
    """Codes of what a node was rejected with."""
    sent = (s.message for s in world.sent if s.receiver == receiver)
    return [message.code for message in sent if isinstance(message, m.Reject)]


def test_p24_a_forgotten_cluster_vanishes_everywhere_and_is_refused() -> None:
    world = started("fjord", "mesa", "tundra")
    gone(world, "mesa")
    assert views(world, "mesa") == {"fjord": ["10.1.0.1"], "tundra": ["10.1.0.1"]}
    elements, services = decide(world["fjord"], FORGET, "mesa")
    assert (elements, services) == (2, 1)
    settle(world)
    for name in ("fjord", "tundra"):
        node = world[name]
        assert Origin("mesa") not in node.replica.remotes
        assert Origin("mesa") not in node.disk.remotes
        assert node.views[Origin("mesa")] == {}
        assert "mesa" not in node.replica.acknowledged
        assert node.replica.members.all_forgotten() == ["mesa"]
        assert "cluster_forgotten" in node.events()
    # It comes back with changes and pushes: nobody takes anything, and it is told why.
    world["mesa"].publish("10.1.0.2")
    world.sent.clear()
    for name in ("fjord", "tundra"):
        world.connect("mesa", name)
    settle(world)
    assert views(world, "mesa") == {"fjord": [], "tundra": []}
    assert rejects(world, "mesa") == ["cluster_forgotten"] * 2
    assert world.between("mesa", "fjord") == world.between("mesa", "tundra") == []
    world["fjord"].publish("10.0.0.2")
    settle(world)
    said = [s.message for s in world.sent if s.sender != "mesa"]
    heads = [message for message in said if isinstance(message, m.Heads)]
    told = {advert.origin.cluster for head in heads for advert in head.adverts}
    assert "fjord" in told
    assert "mesa" not in told
    assert not any(isinstance(x, m.Want) and x.origin.cluster == "mesa" for x in said)


def test_p24_the_admitted_comes_back_under_a_higher_epoch_only() -> None:
    world = started("fjord", "mesa", "tundra")
    gone(world, "mesa")
    decide(world["fjord"], FORGET, "mesa")
    settle(world)
    decide(world["tundra"], ADMIT, "mesa")
    settle(world)
    assert views(world, "mesa") == {"fjord": [], "tundra": []}
    assert world["mesa"].replica.own.epoch == 1
    world.connect("mesa", "fjord")
    world.connect("mesa", "tundra")
    settle(world)
    assert world["mesa"].replica.own.epoch == 2
    assert views(world, "mesa") == {"fjord": ["10.1.0.1"], "tundra": ["10.1.0.1"]}
    assert len(world.digests()) == 1
    assert [node.replica.members.all_forgotten() for node in world.nodes.values()] == [[], [], []]
    # And it stays so over a restart of everybody.
    for node in world.nodes.values():
        node.save()
        world.crash(node.name)
    world.mesh()
    settle(world)
    assert world["mesa"].replica.own.epoch == 2
    assert views(world, "mesa") == {"fjord": ["10.1.0.1"], "tundra": ["10.1.0.1"]}


def test_p24_heads_of_an_epoch_from_before_are_not_taken_from_anybody() -> None:
    world = started("fjord")
    tundra = Author(world, "tundra")
    tundra.publish("10.9.0.1")
    world.run(ALIVE_SECONDS)
    node = world["fjord"]
    relay = Puppet(node, "steppe")
    relay.hello()
    relay.serve(tundra)
    assert node.sees("tundra") == ["10.9.0.1"]
    relay.gone()
    world.run(ALIVE_SECONDS + 1)
    relay = Puppet(node, "steppe")
    relay.hello()
    relay.say(m.Heads((tundra.advert,)))
    assert any(isinstance(x, m.Want) for x in relay.heard())
    decide(node, FORGET, "tundra")
    assert node.sees("tundra") == []
    assert any(isinstance(x, m.Stop) for x in relay.heard())
    relay.serve(tundra)
    assert Origin("tundra") not in node.replica.remotes
    decide(node, ADMIT, "tundra")
    relay.serve(tundra)
    assert Origin("tundra") not in node.replica.remotes
    old = tundra.transfer()
    tundra.own.open_epoch(1)
    tundra.publish("10.9.0.1")
    ignored = node.replica.ignored
    relay.say(m.Heads((tundra.advert,)), tundra.record, old)
    assert node.replica.ignored == ignored + 1
    assert node.sees("tundra") == []
    relay.say(tundra.transfer())
    assert node.sees("tundra") == ["10.9.0.1"]


def test_a_head_waiting_at_a_peer_is_taken_once_its_cluster_is_admitted() -> None:
    world = started("fjord", "mesa", "tundra")
    gone(world, "mesa")
    for name in ("fjord", "tundra"):
        decide(world[name], FORGET, "mesa")
    settle(world)
    # tundra alone hears of the admission first, and of mesa's new epoch.
    world.cut("fjord", "tundra")
    decide(world["tundra"], ADMIT, "mesa")
    world.connect("mesa", "tundra")
    settle(world)
    assert views(world, "mesa") == {"fjord": [], "tundra": ["10.1.0.1"]}
    link = world.connect("fjord", "tundra")
    settle(world)
    assert link.alive
    assert views(world, "mesa") == {"fjord": ["10.1.0.1"], "tundra": ["10.1.0.1"]}


def test_p27_of_two_admissions_across_a_cut_the_larger_name_counts() -> None:
    world = started("fjord", "mesa", "tundra")
    gone(world, "mesa")
    decide(world["fjord"], FORGET, "mesa")
    settle(world)
    world.cut("tundra")
    decide(world["tundra"], ADMIT, "mesa")
    decide(world["fjord"], ADMIT, "mesa")
    settle(world)
    world.mesh()
    settle(world)
    found = {node.replica.members.table["mesa"] for node in world.nodes.values()}
    assert found == {Cell(2, "tundra", ADMIT, 1)}
    assert len(world.digests()) == 1
    assert views(world, "mesa") == {"fjord": ["10.1.0.1"], "tundra": ["10.1.0.1"]}


@pytest.mark.parametrize("winner", ["fjord", "tundra"])
def test_p27_forget_and_admit_racing_across_a_cut_end_as_one_decision(winner: str) -> None:
    loser = "tundra" if winner == "fjord" else "fjord"
    world = started("fjord", "mesa", "steppe", "tundra")
    gone(world, "mesa")
    decide(world[winner], FORGET, "mesa")
    settle(world)
    # Two sides: the one admits and forgets again, the other only admits.
    world.cut("steppe", "fjord")
    world.cut("steppe", "tundra")
    world.cut("fjord", "tundra")
    world.connect("steppe", loser)
    decide(world[loser], ADMIT, "mesa")
    decide(world[winner], ADMIT, "mesa")
    decide(world[winner], FORGET, "mesa")
    settle(world)
    assert not world["steppe"].replica.members.forgotten("mesa")
    world.connect("steppe", "fjord")
    world.connect("steppe", "tundra")
    settle(world)
    others = [world[name] for name in ("fjord", "steppe", "tundra")]
    found = {node.replica.members.table["mesa"] for node in others}
    assert found == {Cell(3, winner, FORGET, 1)}
    assert len({node.replica.announcements.digest() for node in others}) == 1


def test_p27_members_that_forgot_each_other_are_both_forgotten_everywhere() -> None:
    world = started("fjord", "mesa", "steppe", "tundra")
    world.cut("fjord")
    world.cut("tundra")
    world.cut("mesa", "steppe")
    world.connect("fjord", "mesa")
    world.connect("steppe", "tundra")
    settle(world, ALIVE_SECONDS + 2)
    decide(world["fjord"], FORGET, "tundra")
    decide(world["tundra"], FORGET, "fjord")
    settle(world)
    # mesa knows only the one, steppe only the other; each then drops whom it heard that from.
    world.connect("mesa", "steppe")
    settle(world)
    for name in ("mesa", "steppe"):
        node = world[name]
        assert node.replica.members.all_forgotten() == ["fjord", "tundra"]
        assert {o.cluster for o in node.replica.remotes} == {"mesa", "steppe"} - {name}
    assert (
        world["mesa"].replica.announcements.digest()
        == world["steppe"].replica.announcements.digest()
    )


def admitted_by_each_other() -> World:
    """Two clusters alone that forgot each other across a cut, and thought better of it."""
    world = started("fjord", "mesa")
    gone(world, "mesa")
    decide(world["fjord"], FORGET, "mesa")
    decide(world["mesa"], FORGET, "fjord")
    settle(world)
    decide(world["fjord"], ADMIT, "mesa")
    decide(world["mesa"], ADMIT, "fjord")
    settle(world)
    return world


def test_p27_two_that_forgot_each_other_and_admit_each_other_are_together_again() -> None:
    # Found by the simulator: each takes only a higher epoch of the other, and neither opened one,
    # since what admits it stands in an origin that it does not take.
    world = admitted_by_each_other()
    world.connect("fjord", "mesa")
    settle(world)
    assert world["fjord"].sees("mesa") == ["10.1.0.1"]
    assert world["mesa"].sees("fjord") == ["10.0.0.1"]
    assert [node.replica.own.epoch for node in world.nodes.values()] == [2, 2]
    assert len(world.digests()) == 1
    tables = [node.replica.members.table for node in world.nodes.values()]
    assert tables[0] == tables[1]
    assert {cell.decision for cell in tables[0].values()} == {ADMIT}


def test_an_admission_while_the_link_is_up_is_told_on_it() -> None:
    world = started("fjord", "mesa")
    node, peer = world["fjord"], world["mesa"]
    told = Cell(2, "fjord", ADMIT, 1)
    world.sent.clear()
    # Decided and overruled elsewhere, and learned at once: the link stays.
    node.perform(node.replica.learn({"mesa": told}, world.now, node.wall_ns))
    settle(world)
    said = [s.message for s in world.sent if isinstance(s.message, m.Admission)]
    assert said == [m.Admission(2, 1, "fjord")]
    assert peer.replica.members.table == node.replica.members.table == {"mesa": told}
    assert peer.replica.own.epoch == 2
    assert node.sees("mesa") == ["10.1.0.1"]


def test_an_admission_that_is_known_or_outdone_changes_nothing() -> None:
    world = started("fjord")
    node = world["fjord"]
    counts = Cell(3, "mesa", ADMIT, 4)
    node.perform(node.replica.learn({"fjord": counts}, world.now, node.wall_ns))
    assert node.replica.own.epoch == 5
    for order, by, minimum in ((3, "mesa", 4), (2, "tundra", 9), (3, "fjord", 9)):
        assert node.replica.members.told(m.Admission(order, minimum, by)) == {}
    relay = Puppet(node, "steppe")
    relay.hello()
    relay.say(m.Admission(2, 9, "tundra"))
    assert node.replica.members.table == {"fjord": counts}
    relay.say(m.Admission(4, 9, "tundra"))
    assert node.replica.members.table == {"fjord": Cell(4, "tundra", ADMIT, 9)}
    assert node.replica.own.epoch == 10


def test_p23_a_fresh_replica_learns_it_from_anybody_even_when_the_author_is_forgotten() -> None:
    world = started("fjord", "mesa", "steppe", "tundra")
    gone(world, "mesa")
    decide(world["fjord"], FORGET, "mesa")
    settle(world)
    gone(world, "fjord")
    decide(world["steppe"], FORGET, "fjord")
    settle(world)
    world.cut("tundra")
    world.crash("tundra", empty=True)
    # The returner is met first; what it says is dropped as soon as anybody else is met.
    world.connect("tundra", "mesa")
    settle(world)
    assert world["tundra"].sees("mesa") == ["10.1.0.1"]
    world.connect("tundra", "steppe")
    settle(world)
    assert world["tundra"].sees("mesa") == []
    assert world["tundra"].replica.members.all_forgotten() == ["fjord", "mesa"]
    assert rejects(world, "mesa") == ["cluster_forgotten"]
    assert world["steppe"].sees("mesa") == []


def test_the_forgotten_is_dropped_by_the_very_commit_that_says_so() -> None:
    # mesa learns it first, states it as everybody does, and is met by one that did not know.
    world = started("fjord", "mesa", "tundra")
    gone(world, "mesa")
    world.cut("tundra")
    decide(world["fjord"], FORGET, "mesa")
    settle(world)
    cell = world["fjord"].replica.members.table["mesa"]
    mesa = world["mesa"]
    mesa.perform(mesa.replica.learn({"mesa": cell}, world.now, mesa.wall_ns))
    assert mesa.replica.own.epoch == 1
    settle(world)
    world.connect("mesa", "tundra")
    settle(world)
    tundra = world["tundra"]
    assert Origin("mesa") not in tundra.replica.remotes
    assert tundra.views[Origin("mesa")] == {}
    tundra.save()
    assert Origin("mesa") not in tundra.disk.remotes
    assert rejects(world, "mesa") == ["cluster_forgotten"]


def test_c47_the_dead_are_not_learned_again_from_who_still_talks_about_them() -> None:
    world = started("fjord", "mesa", "tundra", meshed=False)
    world.connect("fjord", "mesa")
    settle(world)
    world.cut("mesa")
    died = world["fjord"].remote("mesa").fresh_at
    # tundra joins an hour later and learns of mesa from fjord; neither takes that for life.
    settle(world, 60.0)
    world.connect("tundra", "fjord")
    settle(world)
    tundra, fjord = world["tundra"], world["fjord"]
    assert tundra.sees("mesa") == ["10.1.0.1"]
    learned = tundra.remote("mesa").fresh_at
    settle(world, 90.0)
    assert fjord.remote("mesa").fresh_at == died
    assert tundra.remote("mesa").fresh_at == learned
    # fjord forgets it while tundra is away; tundra comes back talking of mesa.
    world.cut("tundra")
    decide(fjord, FORGET, "mesa")
    settle(world)
    world.sent.clear()
    world.connect("tundra", "fjord")
    settle(world)
    told = [
        x.message for x in world.sent if x.sender == "tundra" and isinstance(x.message, m.Heads)
    ]
    assert Origin("mesa") in {advert.origin for heads in told for advert in heads.adverts}
    for node in (fjord, tundra):
        assert Origin("mesa") not in node.replica.remotes
        assert node.replica.members.all_forgotten() == ["mesa"]
    assert len({fjord.replica.announcements.digest(), tundra.replica.announcements.digest()}) == 1


def test_c47_a_repeated_forget_changes_nothing_and_a_thousand_cycles_leave_one_cell() -> None:
    world = started("fjord", "mesa", "tundra")
    gone(world, "mesa")
    fjord = world["fjord"]
    decide(fjord, FORGET, "mesa")
    settle(world)
    before = fjord.replica.own.elements.version
    assert decide(fjord, FORGET, "mesa") == (0, 0)
    assert decide(world["tundra"], FORGET, "mesa") == (0, 0)
    assert not fjord.replica.own.dirty
    for _ in range(1000):
        decide(fjord, ADMIT, "mesa")
        decide(fjord, FORGET, "mesa")
    settle(world)
    assert fjord.replica.own.elements.version > before
    for name in ("fjord", "tundra"):
        own = world[name].replica.own.elements
        assert [is_member(e) for e, *_ in own.entries()].count(True) == 1
        assert own.tombstone_count == 0
        assert world[name].replica.members.table["mesa"].order == 2001


def test_what_a_restart_finds_is_as_it_was_left() -> None:
    world = started("fjord", "mesa", "tundra")
    for node in world.nodes.values():
        node.save()
    gone(world, "mesa")
    kept = dict(world["fjord"].disk.remotes)
    decide(world["fjord"], FORGET, "mesa")
    settle(world)
    fjord = world["fjord"]
    stamp = fjord.replica.own.elements.version
    # Killed before the origin was deleted: the disk still holds it.
    fjord.disk.remotes[Origin("mesa")] = kept[Origin("mesa")]
    world.crash("fjord")
    assert Origin("mesa") not in fjord.replica.remotes
    assert fjord.replica.members.all_forgotten() == ["mesa"]
    assert "mesa" in fjord.replica.members.wiped
    fjord.replica.expect_members({"mesa", "tundra"}, world.now)
    assert set(fjord.replica.acknowledged) == {"tundra"}
    world.run(1.0)
    assert Origin("mesa") not in fjord.disk.remotes
    assert not fjord.replica.own.dirty
    # The cluster's own element and the cells live side by side.
    fjord.replica.own.state(None, {}, fjord.wall_ns)
    fjord.say("10.0.0.9")
    fjord.publish()
    assert fjord.replica.own.index.cells.keys() == {"mesa"}
    assert fjord.replica.own.stated_services == {CART}
    assert fjord.replica.own.elements.version > stamp


def test_what_a_killed_agent_kept_of_the_admitted_goes_before_anything_new_of_them_comes() -> None:
    world = started("fjord", "mesa", "tundra")
    for node in world.nodes.values():
        node.save()
    kept = world["fjord"].disk.remotes[Origin("mesa")]
    gone(world, "mesa")
    decide(world["fjord"], FORGET, "mesa")
    settle(world)
    decide(world["fjord"], ADMIT, "mesa")
    settle(world)
    world.connect("mesa", "tundra")
    settle(world)
    fjord = world["fjord"]
    assert fjord.sees("mesa") == ["10.1.0.1"]
    # Killed before the old state was deleted: the disk still holds it.
    fjord.disk.remotes[Origin("mesa")] = kept
    world.crash("fjord")
    world.connect("fjord", "mesa")
    # All of it comes before the first look at what is due.
    world.run(0.2)
    assert fjord.sees("mesa") == ["10.1.0.1"]
    settle(world)
    fjord.save()
    assert fjord.sees("mesa") == ["10.1.0.1"]
    assert [found.version.epoch for found in fjord.disk.restored()] == [2, 1]


def test_an_admission_met_after_a_restart_opens_the_epoch_as_well() -> None:
    world = started("fjord", "mesa")
    gone(world, "mesa")
    decide(world["fjord"], FORGET, "mesa")
    decide(world["fjord"], ADMIT, "mesa")
    settle(world)
    # mesa stored fjord's commit, but was killed before its own new epoch was.
    fjord, mesa = world["fjord"], world["mesa"]
    before = mesa.disk.own
    world.connect("mesa", "fjord")
    world.run(1.0)
    assert mesa.replica.own.epoch == 2
    mesa.save()
    assert mesa.disk.own is before
    world.crash("mesa")
    assert mesa.replica.own.epoch == 1
    world.run(0.5)
    assert mesa.replica.own.epoch == 2
    world.connect("mesa", "fjord")
    settle(world)
    assert fjord.sees("mesa") == ["10.1.0.1"]
    assert mesa.replica.own.epoch == 2


def test_c41_a_rebuilt_cluster_is_let_in_by_forget_and_admit() -> None:
    world = started("mesa")
    mesa = world["mesa"]
    first, mine = Puppet(mesa, "fjord"), Author(world, "fjord")
    mine.publish("10.20.1.4")
    first.hello(instance="1", uid="uid-a")
    first.serve(mine)
    first.gone()
    world.run(ALIVE_SECONDS + 1)
    decide(mesa, FORGET, "fjord")
    assert mesa.facts == {"uid/fjord": b""}
    decide(mesa, ADMIT, "fjord")
    rebuilt, theirs = Puppet(mesa, "fjord"), Author(world, "fjord", epoch=2)
    theirs.publish("10.70.1.4")
    rebuilt.hello(instance="2", uid="uid-b")
    rebuilt.serve(theirs)
    assert mesa.facts == {"uid/fjord": b"uid-b"}
    assert mesa.sees("fjord") == ["10.70.1.4"]


def test_who_is_alive_is_not_forgotten() -> None:
    world = started("fjord", "mesa", "tundra")
    fjord = world["fjord"]

    def refused(cluster: str, error: type[Exception] = NotGood) -> str:
        with pytest.raises(error) as caught:
            decide(fjord, FORGET, cluster)
        return str(caught.value)

    assert refused("mesa") == (
        "mesa is alive: its last sign of life is 0 s old; stop its agent, wait 60 s, and ask again"
    )
    world.cut("mesa", "fjord")
    settle(world, ALIVE_SECONDS + 1)
    # Relayed signs of life count as well: tundra sees it, so we do.
    assert "mesa is alive" in refused("mesa")
    world.cut("mesa")
    settle(world, 30.0)
    assert "mesa is alive: its last sign of life is 3" in refused("mesa")
    assert "cannot decide about itself" in refused("fjord")
    assert "no cluster stepppe was ever heard of" in refused("stepppe", InputError)
    assert fjord.replica.members.table == {}
    settle(world, 35.0)
    assert decide(fjord, FORGET, "mesa") == (2, 1)
    assert decide(fjord, ADMIT, "steppe") == (0, 0)


def test_a_young_agent_does_not_know_who_is_alive() -> None:
    world = World("fjord", tick=0.25)
    fjord = world["fjord"]
    fjord.replica.expect_members({"mesa"}, 0.0)
    with pytest.raises(NotGood, match="has run for 0 s only"):
        decide(fjord, FORGET, "mesa")
    world.run(30.0)
    with pytest.raises(NotGood, match="has run for 30 s only, so mesa may be alive"):
        decide(fjord, FORGET, "mesa")
    world.run(31.0)
    assert decide(fjord, FORGET, "mesa") == (0, 0)
    assert fjord.replica.members.forgotten("mesa")


def test_no_member_makes_all_others_swell() -> None:
    world = started("fjord")
    fjord = world["fjord"]
    loud = Author(world, "mesa")
    stated = {
        element_of("mesa", f"c{n}"): value_of(Cell(1, "mesa", FORGET, 0))
        for n in range(CELL_LIMIT + 10)
    }
    loud.own.state(MEMBERS, stated, loud.wall_ns)
    loud.publish("10.20.1.4")
    peer = Puppet(fjord, "mesa")
    peer.hello()
    peer.say(m.Heads((loud.advert,)), loud.record)
    whole = loud.transfer()
    half = whole.entries[:2000]
    parts = [
        m.Transfer(whole.origin, 1, True, 0, half[-1][1], half, None),  # noqa: FBT003
        m.Transfer(
            *(whole.origin, 1, True, half[-1][1], whole.entries[3999][1]),
            *(whole.entries[2000:4000], None),
        ),
        m.Transfer(
            *(whole.origin, 1, True, whole.entries[3999][1], whole.to),
            *(whole.entries[4000:], whole.head),
        ),
    ]
    peer.say(*parts)
    first = sorted(f"c{n}" for n in range(CELL_LIMIT + 10))[:CELL_LIMIT]
    assert fjord.replica.members.all_forgotten() == first
    quiet = Author(world, "tundra")
    quiet.own.state(
        MEMBERS,
        {element_of("tundra", "z"): value_of(Cell(1, "tundra", FORGET, 0))},
        quiet.wall_ns,
    )
    quiet.publish("10.30.1.4")
    other = Puppet(fjord, "tundra")
    other.hello()
    other.serve(quiet)
    assert fjord.replica.members.forgotten("z")
    fjord.publish()
    assert sorted(fjord.replica.own.index.cells) == first


def test_a_cell_that_is_taken_back_counts_on() -> None:
    world = started("fjord")
    fjord, author, other = world["fjord"], Author(world, "mesa"), Author(world, "tundra")
    peer = Puppet(fjord, "mesa")
    peer.hello()
    # Of tundra an advert came, and nothing else: it is not waited for any more.
    other.publish("10.30.1.4")
    peer.say(m.Heads((other.advert,)))
    assert Origin("tundra") in fjord.replica.remotes
    cell = {element_of("mesa", "tundra"): value_of(Cell(1, "mesa", FORGET, 0))}
    author.own.state(MEMBERS, cell, author.wall_ns)
    author.publish("10.20.1.4")
    peer.serve(author)
    assert Origin("tundra") not in fjord.replica.remotes
    assert fjord.replica.members.wiped == set()
    author.own.state(MEMBERS, {}, author.wall_ns)
    author.publish("10.20.1.4", key=ServiceKey("shop", "pay"))
    peer.serve(author)
    assert fjord.remote("mesa").index.cells == {}
    assert fjord.replica.members.all_forgotten() == ["tundra"]


Step = tuple[str, str, str]
steps = st.tuples(st.sampled_from(["say", "hear"]), names, names)


@given(st.lists(steps, max_size=40))
def test_replicas_that_state_what_counts_agree_however_the_decisions_travel(
    history: list[Step],
) -> None:
    """The rule alone, without replicas: decisions about one cluster, heard in any order."""
    stated: dict[str, Cell] = {}
    made: list[Cell] = []

    def hear(listener: str, speaker: str) -> None:
        found = [{"mesa": stated[n]} for n in (listener, speaker) if n in stated]
        if found:
            stated[listener] = merged(found)["mesa"]

    for what, one, other in history:
        if what == "hear":
            hear(one, other)
            continue
        known = stated.get(one)
        decision = ADMIT if is_forgotten(known) else FORGET
        stated[one] = decided(decision, one, known, 1)
        made.append(stated[one])
    for _ in range(2):
        for listener in NAMES:
            for speaker in NAMES:
                hear(listener, speaker)
    assert set(stated.values()) == ({max(made)} if made else set())
