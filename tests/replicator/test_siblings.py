"""Two agents of one cluster in virtual time: standing by, taking over, and zombies (rule C10)."""

from __future__ import annotations

import pytest

from clusters.model import ServiceKey
from crdt import ZERO, Base, Origin, Version
from replicator import messages as m
from replicator.codec import decode, encode
from replicator.errors import NotGood
from replicator.kinds import FORGET
from replicator.membership import Cell
from tests.support.replicas import Node, World

PAY = ServiceKey("shop", "pay")
FJORD = Origin("fjord")


def pair(*others: str, seed: int = 0) -> World:
    """Two agents of fjord, of which the first leads, and other clusters; all are linked."""
    world = World("fjord/1", "fjord/2", *others, seed=seed)
    for name in others:
        world[name].publish(f"10.9.0.{len(name)}")
    world.mesh()
    world.run(0.5)
    world["fjord/1"].services = world["fjord/2"].services
    world["fjord/1"].say("10.1.0.1", "10.1.0.2")
    world["fjord/1"].lead(2)
    world.run(1.0)
    return world


def dead(world: World, name: str) -> None:
    """An agent is killed for good."""
    world.cut(name)
    world[name].perform = lambda _: None  # type: ignore[method-assign]
    world[name].tick = lambda: None  # type: ignore[method-assign]


def snapshots_of(world: World, origin: Origin, receiver: str) -> int:
    """How many snapshot chunks of an origin a node was sent."""
    sent = [x for x in world.snapshots() if x.receiver == receiver]
    return sum(isinstance(x.message, m.Transfer) and x.message.origin == origin for x in sent)


class TestStandingBy:
    def test_a_standby_holds_every_origin_its_own_clusters_too(self) -> None:
        world = pair("mesa", "tundra")
        standby = world["fjord/2"]
        assert standby.sees("fjord") == ["10.1.0.1", "10.1.0.2"]
        assert standby.sees("mesa") == ["10.9.0.4"]
        assert standby.sees("tundra") == ["10.9.0.6"]
        assert len(world.digests()) == 1
        assert standby.replica.siblings.warm
        assert not standby.replica.siblings.behind

    def test_it_takes_everything_from_the_writer_so_that_changes_cross_once(self) -> None:
        world = pair("mesa", "tundra")
        world.sent.clear()
        world["mesa"].publish("10.9.0.9")
        world.run(1.0)
        assert world["fjord/2"].sees("mesa") == ["10.9.0.9"]
        assert [sent.sender for sent in world.transfers("fjord/2")] == ["fjord/1"]
        assert len(world.transfers()) == 3

    def test_it_stamps_nothing_and_publishes_nothing(self) -> None:
        world = pair("mesa")
        standby = world["fjord/2"]
        assert standby.say("10.1.0.9") == 0
        assert not standby.replica.own.dirty
        assert standby.replica.own.served() is None
        assert standby.replica.own.elements.version == ZERO

    def test_it_relays_its_clusters_origin_byte_for_byte(self) -> None:
        world = pair("mesa")
        world.cut("fjord/1", "mesa")
        world["fjord/1"].publish("10.1.0.7")
        world.run(3.0)
        assert world["mesa"].sees("fjord") == ["10.1.0.7"]
        held = world["mesa"].remote("fjord").head
        assert held == world["fjord/1"].replica.own.published_head

    def test_its_beats_do_not_make_a_dead_writer_look_alive(self) -> None:
        world = pair("mesa")
        dead(world, "fjord/1")
        at = world["mesa"].remote("fjord").fresh_at
        world.run(5.0)
        assert world["mesa"].remote("fjord").fresh_at == at

    def test_it_takes_no_decision_about_members(self) -> None:
        world = pair("mesa")
        with pytest.raises(NotGood) as caught:
            world["fjord/2"].replica.members.decide(FORGET, "mesa", world.now)
        assert caught.value.code == "standing_by"

    def test_without_a_lease_a_second_agent_is_refused(self) -> None:
        world = World("fjord", "fjord/2")
        world["fjord"].publish("10.1.0.1")
        world.connect("fjord/2", "fjord")
        world.run(1.0)
        assert world["fjord/2"].version("fjord") == ZERO
        refused = [n.fields["code"] for n in world["fjord"].notices if n.event == "peer_rejected"]
        assert refused == ["peer_is_self_or_duplicate"]

    def test_a_pair_whose_cluster_was_forgotten_by_others_stays_together(self) -> None:
        world = pair()
        cell = Cell(1, "mesa", FORGET, 0)
        for name in ("fjord/1", "fjord/2"):
            node = world[name]
            node.perform(node.replica.learn({"fjord": cell}, world.now, node.wall_ns))
        world["fjord/1"].publish("10.1.0.8")
        world.run(1.0)
        assert world["fjord/2"].sees("fjord") == ["10.1.0.8"]

    def test_a_decision_about_ourselves_never_makes_our_origin_a_foreign_one(self) -> None:
        world = World("fjord", "mesa")
        world["fjord"].publish("10.1.0.1")
        world["mesa"].publish("10.9.0.4")
        world.mesh()
        world.run(1.0)
        node = world["fjord"]
        cell = Cell(1, "mesa", "admit", 0)
        node.perform(node.replica.learn({"fjord": cell}, world.now, node.wall_ns))
        assert sorted(node.replica.remotes) == [Origin("mesa")]


class TestTakingOver:
    def test_nothing_is_stamped_again_and_peers_go_on_by_delta(self) -> None:
        world = pair("mesa")
        before = dict(world["mesa"].views[FJORD])
        stamps = sorted(world["mesa"].remote("fjord").elements.entries())
        world.sent.clear()
        world["mesa"].changed.clear()
        dead(world, "fjord/1")
        world["fjord/2"].lead(3)
        world.run(1.0)
        mesa = world["mesa"]
        assert mesa.version("fjord").epoch == 3
        assert sorted(mesa.remote("fjord").elements.entries()) == stamps
        assert mesa.views[FJORD] == before
        assert [change for told in mesa.changed for change in told.changes] == []
        assert snapshots_of(world, FJORD, "mesa") == 0
        assert not world.transfers("mesa")

    def test_the_epoch_continues_from_the_last_head_held(self) -> None:
        world = pair("mesa")
        former = world["fjord/1"].replica.own.published_head
        assert former is not None
        world["fjord/2"].lead(7)
        head = world["fjord/2"].replica.own.published_head
        assert head is not None
        assert (head.epoch, head.stamp) == (7, former.stamp)
        assert head.base == Base(former.epoch, former.stamp, former.root)
        assert head.issued_at > former.issued_at
        world["fjord/2"].publish("10.1.0.3")
        later = world["fjord/2"].replica.own.published_head
        assert later is not None
        assert later.base == head.base

    def test_the_epoch_is_above_every_epoch_held_whatever_the_lease_counts(self) -> None:
        world = pair("mesa")
        world["fjord/1"].stand_by()
        world["fjord/2"].lead(1)
        assert world["fjord/2"].replica.own.epoch == 3
        world["fjord/2"].stand_by()
        world.run(0.5)
        world["fjord/1"].lead(1)
        assert world["fjord/1"].replica.own.epoch == 4

    def test_what_changed_in_the_cluster_meanwhile_comes_with_the_first_head(self) -> None:
        world = pair("mesa")
        dead(world, "fjord/1")
        world["fjord/2"].services = dict(world["fjord/2"].services)
        world["fjord/2"].say("10.1.0.2", "10.1.0.3")
        world["mesa"].changed.clear()
        world["fjord/2"].lead(3)
        world.run(1.0)
        assert world["mesa"].sees("fjord") == ["10.1.0.2", "10.1.0.3"]
        assert len([told for told in world["mesa"].changed if told.origin == FJORD]) == 1

    def test_a_peer_that_holds_more_than_was_taken_over_takes_a_snapshot(self) -> None:
        world = pair("mesa", "tundra")
        world.cut("fjord/1", "fjord/2")
        world.cut("fjord/2")
        world["fjord/1"].publish("10.1.0.9")
        world.run(0.5)
        world.sent.clear()
        dead(world, "fjord/1")
        world["fjord/2"].lead(3)
        world.connect("fjord/2", "mesa")
        world.connect("fjord/2", "tundra")
        told = len(world["mesa"].changed)
        world.run(3.0)
        assert world["mesa"].sees("fjord") == ["10.1.0.9"]
        assert snapshots_of(world, FJORD, "mesa") == 1
        assert [c for t in world["mesa"].changed[told:] for c in t.changes] == []
        assert {world[n].version("fjord").epoch for n in ("mesa", "tundra")} == {3}

    def test_one_that_was_cut_off_hears_of_the_last_heads_from_peers_first(self) -> None:
        world = pair("mesa")
        world.cut("fjord/1", "fjord/2")
        world["fjord/1"].publish("10.1.0.9")
        world["fjord/2"].services = world["fjord/1"].services
        world.run(0.05)
        dead(world, "fjord/1")
        world.run(3.0)
        assert world["fjord/2"].sees("fjord") == ["10.1.0.9"]
        assert not world["fjord/2"].replica.siblings.behind

    def test_the_loss_of_the_link_makes_it_ask_for_the_lease(self) -> None:
        world = pair("mesa")
        world.cut("mesa")
        assert world["fjord/2"].claims == []
        world.cut("fjord/1")
        assert world["fjord/2"].claims == [0]

    def test_a_writer_that_gives_up_makes_it_ask_for_the_lease(self) -> None:
        world = pair("mesa")
        world["fjord/1"].stand_by()
        world.run(0.5)
        assert world["fjord/2"].claims == [0]
        assert world["fjord/1"].claims == []

    def test_members_decisions_are_stated_by_whoever_leads(self) -> None:
        world = pair("mesa", "tundra")
        node = world["fjord/1"]
        cell = Cell(1, "fjord", FORGET, 0)
        world.cut("tundra")
        node.perform(node.replica.learn({"tundra": cell}, world.now, node.wall_ns))
        node.publish()
        world.run(1.0)
        assert world["fjord/2"].replica.members.forgotten("tundra")
        world.cut("fjord/1")
        world["fjord/2"].lead(3)
        assert world["fjord/2"].replica.own.index.cells == {"tundra": cell}

    def test_an_epoch_that_others_do_not_take_is_passed_over(self) -> None:
        world = pair("mesa")
        world["fjord/1"].stand_by()
        world["fjord/2"].perform(
            world["fjord/2"].replica.learn(
                {"fjord": Cell(2, "mesa", "admit", 41)}, world.now, world["fjord/2"].wall_ns
            )
        )
        world["fjord/2"].lead(3)
        assert world["fjord/2"].replica.own.epoch == 42

    def test_the_first_leader_of_all_begins_with_nothing(self) -> None:
        world = World("fjord/1", "fjord/2")
        world.mesh()
        world.run(0.5)
        world["fjord/2"].say("10.1.0.1")
        assert not world["fjord/2"].replica.siblings.warm
        world["fjord/2"].lead(5)
        world.run(0.5)
        head = world["fjord/2"].replica.own.published_head
        assert head is not None
        assert head.base is None
        assert world["fjord/1"].sees("fjord") == ["10.1.0.1"]

    @pytest.mark.parametrize("fence", [1, 2])
    def test_a_renewal_changes_nothing(self, fence: int) -> None:
        world = pair("mesa")
        node = world["fjord/1"]
        version = node.replica.own.elements.version
        node.lead(fence, seconds=99.0)
        assert node.replica.own.elements.version == version
        assert node.replica.own.leads_until == world.now + 99.0


class TestGivingUp:
    def test_a_lease_that_is_not_renewed_ends_by_itself(self) -> None:
        world = pair("mesa")
        world.run(12.0)
        node = world["fjord/1"]
        assert not node.replica.own.leading
        assert "standing_by" in node.events()
        assert node.sees("fjord") == ["10.1.0.1", "10.1.0.2"]
        assert not node.replica.own.dirty

    def test_it_ends_before_a_frame_is_looked_at(self) -> None:
        world = pair("mesa")
        node = world["fjord/1"]
        node.tick = lambda: None  # type: ignore[method-assign]
        world.run(8.0)
        assert node.replica.own.leading
        world.now += 10.0
        world.hand(node, node.session("mesa"), encode(m.Heads(())))
        assert not node.replica.own.leading

    def test_a_batch_that_becomes_durable_too_late_is_not_sent(self) -> None:
        world = pair("mesa")
        node = world["fjord/1"]
        node.tick = lambda: None  # type: ignore[method-assign]
        node.say("10.1.0.66")
        node.seal()
        node.store()
        world.now += 20.0
        world.sent.clear()
        node.send()
        world.run(1.0)
        assert not node.replica.own.leading
        assert node.sees("fjord") == ["10.1.0.1", "10.1.0.2"]
        assert not world.transfers()

    def test_what_was_not_published_is_dropped(self) -> None:
        world = pair("mesa")
        node = world["fjord/1"]
        node.say("10.1.0.66")
        node.stand_by()
        assert node.sees("fjord") == ["10.1.0.1", "10.1.0.2"]
        assert node.version("fjord") == world["mesa"].version("fjord")
        world.check(node)

    def test_a_state_that_cannot_be_told_any_more_is_pulled_again(self) -> None:
        world = pair("mesa")
        node = world["fjord/1"]
        node.publish("10.1.0.1")
        node.replica.own.move_floor(node.replica.own.elements.version.stamp, node.wall_ns)
        node.seal()
        node.stand_by()
        assert not node.replica.siblings.warm
        world["fjord/2"].lead(3)
        world.run(1.0)
        assert node.sees("fjord") == ["10.1.0.1"]

    def test_it_stays_warm_under_the_next_leader(self) -> None:
        world = pair("mesa")
        world["fjord/1"].stand_by()
        world["fjord/1"].stand_by()
        world.sent.clear()
        world["fjord/2"].lead(3)
        world["fjord/2"].publish("10.1.0.5")
        world.run(1.0)
        assert world["fjord/1"].sees("fjord") == ["10.1.0.5"]
        assert snapshots_of(world, FJORD, "fjord/1") == 0
        assert len(world.digests()) == 1
        assert "second_writer" not in world["fjord/1"].events()

    def test_every_link_is_told_but_those_that_end(self) -> None:
        world = pair("mesa", "tundra")
        node = world["fjord/1"]
        fresh, _ = node.replica.open_session("tundra", dialled=True, now=world.now)
        ending = node.replica.sessions[node.session("mesa")]
        ending.close()
        node.stand_by()
        assert len(node.replica.pull(fresh)) == 2
        left = [decode(frame) for frame in node.replica.pull(ending.number)]
        assert not any(isinstance(message, m.Hello) for message in left)


class TestZombies:
    """Property 32: paused past its lease, it wakes and writes on."""

    def zombie(self, node: Node) -> None:
        """Its lease never ends, as far as it knows: its clock stood still."""
        node.replica.own.leads_until = 1e9

    def test_its_heads_are_refused_by_all_who_know_the_new_epoch(self) -> None:
        world = pair("mesa", "tundra")
        self.zombie(world["fjord/1"])
        world.cut("fjord/1")
        world["fjord/2"].lead(3, seconds=99.0)
        world["fjord/2"].publish("10.1.0.3")
        world.run(0.5)
        world["fjord/1"].publish("10.6.6.6")
        world.connect("fjord/1", "mesa")
        world.run(3.0)
        assert world["mesa"].sees("fjord") == ["10.1.0.3"]
        assert world["tundra"].sees("fjord") == ["10.1.0.3"]

    def test_it_asks_the_lease_and_reports_a_second_writer(self) -> None:
        world = pair("mesa")
        zombie = world["fjord/1"]
        self.zombie(zombie)
        world.cut("fjord/1")
        world["fjord/2"].lead(3, seconds=99.0)
        world.run(0.5)
        world.connect("fjord/1", "mesa")
        world.run(0.5)
        assert zombie.claims[-1] == 3
        assert "second_writer" in zombie.events()
        assert zombie.replica.own.epoch == 2
        zombie.stand_by("lost")
        world.run(1.0)
        assert zombie.version("fjord") == world["mesa"].version("fjord")
        assert len(world.digests()) == 2 - (1 if world.between("fjord/2", "mesa") else 0)

    def test_those_who_took_its_heads_converge_by_snapshot(self) -> None:
        world = pair("mesa", "tundra")
        zombie = world["fjord/1"]
        self.zombie(zombie)
        world.cut("fjord/2")
        world.cut("tundra", "fjord/1")
        world.cut("tundra", "mesa")
        world["fjord/2"].lead(3, seconds=99.0)
        world["fjord/2"].publish("10.1.0.3")
        zombie.publish("10.6.6.6")
        world.sent.clear()
        world.connect("fjord/2", "tundra")
        world.run(1.0)
        assert world["mesa"].sees("fjord") == ["10.6.6.6"]
        assert world["tundra"].sees("fjord") == ["10.1.0.3"]
        world.connect("tundra", "mesa")
        world.run(4.0)
        assert world["mesa"].sees("fjord") == ["10.1.0.3"]
        assert snapshots_of(world, FJORD, "mesa") == 1
        assert zombie.claims == [3]
        zombie.stand_by("lost")
        world.run(4.0)
        assert zombie.sees("fjord") == ["10.1.0.3"]
        assert "second_writer" in zombie.events()
        assert len(world.digests()) == 1

    def test_one_that_stood_by_first_reports_what_was_lost(self) -> None:
        world = pair("mesa")
        zombie = world["fjord/1"]
        world.cut("fjord/2")
        zombie.services = dict(zombie.services)
        zombie.publish("10.6.6.6")
        zombie.stand_by("lease_lapsed")
        world["fjord/2"].lead(3)
        world.connect("fjord/2", "fjord/1")
        world.run(3.0)
        assert "second_writer" in zombie.events()
        assert zombie.sees("fjord") == ["10.1.0.1", "10.1.0.2"]

    def test_the_holder_of_the_lease_opens_a_higher_epoch(self) -> None:
        world = pair("mesa", "tundra")
        world.cut("fjord/2")
        world["fjord/2"].lead(9)
        world["fjord/2"].publish("10.1.0.3")
        world.connect("fjord/2", "tundra")
        world.run(3.0)
        leader = world["fjord/1"]
        assert leader.claims[-1] == 9
        leader.lead(10)
        world.run(2.0)
        assert leader.replica.own.epoch == 10
        assert world["tundra"].version("fjord").epoch == 10
        assert world["tundra"].sees("fjord") == ["10.1.0.3"]

    def test_an_unheld_epoch_that_is_advertised_at_the_taking_over_is_looked_into(self) -> None:
        world = pair("mesa")
        world["fjord/1"].stand_by()
        node = world["fjord/2"]
        session = node.session("mesa")
        forged = m.Heads((m.Advert(FJORD, Version(50, 1), 0, b"12345678"),))
        node.perform(node.replica.receive(session, encode(forged), world.now, node.wall_ns))
        world.sent.clear()
        node.lead(3)
        world.run(0.1)
        wants = [x.message for x in world.sent if isinstance(x.message, m.Want)]
        assert any(w.origin == FJORD and w.version == Version(50, 1) for w in wants)
        assert node.replica.own.epoch == 3


class TestRestarts:
    def test_a_life_begins_standing_by_with_what_it_wrote(self) -> None:
        world = pair("mesa")
        world.cut("fjord/2")
        world.crash("fjord/1")
        node = world["fjord/1"]
        assert not node.replica.own.leading
        assert node.sees("fjord") == ["10.1.0.1", "10.1.0.2"]
        node.lead(3)
        head = node.replica.own.published_head
        assert head is not None
        assert head.base is not None
        assert head.base.epoch == 2

    def test_or_with_what_it_took_from_the_writer_if_that_is_later(self) -> None:
        world = pair("mesa")
        world["fjord/1"].stand_by()
        world["fjord/2"].lead(3)
        world["fjord/2"].publish("10.1.0.4")
        world.run(1.0)
        world["fjord/1"].save()
        world.crash("fjord/1")
        assert world["fjord/1"].sees("fjord") == ["10.1.0.4"]
        assert world["fjord/1"].replica.siblings.epoch == 3

    @pytest.mark.parametrize("boundary", ["sealed", "stored", "sent"])
    def test_a_crash_at_any_step_of_taking_over_reuses_no_version(self, boundary: str) -> None:
        world = pair("mesa")
        node = world["fjord/2"]
        node.save()
        dead(world, "fjord/1")
        node.perform(node.replica.lead(3, world.now + 10, world.now, node.wall_ns))
        node.say("10.1.0.5")
        node.seal()
        if boundary != "sealed":
            node.store()
        if boundary == "sent":
            node.send()
            world.run(0.5)
        world.crash("fjord/2")
        assert node.sees("fjord") == (
            ["10.1.0.1", "10.1.0.2"] if boundary == "sealed" else ["10.1.0.5"]
        )
        node.say("10.1.0.6")
        node.lead(3)
        world.connect("fjord/2", "mesa")
        world.run(1.0)
        assert world["mesa"].version("fjord").epoch == (3 if boundary == "sealed" else 4)
        assert world["mesa"].sees("fjord") == ["10.1.0.6"]

    def test_commits_after_standing_by_are_stored_whole(self) -> None:
        world = pair("mesa")
        world["fjord/1"].stand_by()
        world["fjord/2"].lead(3)
        world["fjord/2"].publish("10.1.0.2", "10.1.0.4")
        world.run(1.0)
        world["fjord/1"].save()
        restored = {remote.origin: remote for remote in world["fjord/1"].disk.restored()}
        assert len(restored[FJORD].elements) == len(world["fjord/2"].replica.own.elements)
        assert restored[FJORD].version == world["fjord/2"].replica.own.elements.version

    def test_one_that_runs_alone_again_writes_on_above_the_other(self) -> None:
        world = pair("mesa")
        node = world["fjord/2"]
        node.save()
        dead(world, "fjord/1")
        node.leased = False
        world.crash("fjord/2")
        assert node.replica.own.leading
        assert node.replica.own.epoch == 3
        assert node.sees("fjord") == ["10.1.0.1", "10.1.0.2"]
        node.publish()
        world.connect("fjord/2", "mesa")
        world.run(1.0)
        assert world["mesa"].version("fjord").epoch == 3
