"""Replicas among each other: what is sent to whom, when, and what it leads to."""

from __future__ import annotations

from itertools import pairwise

import pytest

from clusters.model import ServiceKey
from crdt import ZERO, Origin, Version, pack
from crdt.entries import ADD
from replicator import messages as m
from replicator.codec import encode, encode_packed
from replicator.freshness import LAGGING_RELAYED_SECONDS
from tests.support.puppets import Author, Puppet
from tests.support.replicas import World, live
from tests.support.signers import FakeSigner

FJORD = Origin("fjord")


def published(*names: str, **options: int) -> World:
    """A world whose nodes have all published their first head."""
    world = World(*names, **options)
    for node in world.nodes.values():
        node.publish()
    return world


def meshed(*names: str) -> World:
    """A full mesh at rest."""
    world = published(*names)
    world.mesh()
    world.run(3.0)
    world.sent.clear()
    return world


def line(*names: str) -> World:
    """Nodes in a row at rest."""
    world = published(*names)
    for one, other in pairwise(names):
        world.connect(one, other)
    world.run(5.0)
    world.sent.clear()
    return world


# ---- who gets what ------------------------------------------------------------------------------


def test_in_a_full_mesh_every_change_goes_to_every_cluster_exactly_once() -> None:
    world = meshed("fjord", "mesa", "tundra")
    for number in range(5):
        world["fjord"].publish(f"10.20.1.{number}")
        world.run(5.0)
    for name in ("mesa", "tundra"):
        sent = world.transfers(name)
        assert len(sent) == 5
        assert {one.sender for one in sent} == {"fjord"}
        assert world[name].sees("fjord") == ["10.20.1.4"]
    assert world.transfers("fjord") == []
    assert len(world.digests()) == 1


@pytest.mark.parametrize("jitter", [0.0, 0.5])
def test_a_slow_direct_link_is_not_taken_for_a_stalled_one(jitter: float) -> None:
    # A relay hears of a change first and says so while the change is still on its way to us.  The
    # origin had been idle for long, which is no reason to take its news twice.
    world = published("fjord", "mesa", "tundra")
    world.jitter = jitter
    world.connect("fjord", "tundra", delay=1.0)
    world.connect("fjord", "mesa", delay=0.001)
    world.connect("mesa", "tundra", delay=0.001)
    world.run(30.0)
    world.sent.clear()
    world["tundra"].notices.clear()
    world["fjord"].publish("10.20.1.4")
    world.run(20.0)
    assert [one.sender for one in world.transfers("tundra")] == ["fjord"]
    assert "source_stalled" not in world["tundra"].events()


def test_where_a_link_is_missing_the_origins_own_bytes_are_relayed() -> None:
    world = line("fjord", "mesa", "tundra")
    newer = (pack([99, "fjord", "new kind"]), pack([1, {"x": None}]))
    world["fjord"].replica.own.state(None, dict([newer]), world["fjord"].wall_ns)
    world["fjord"].publish("10.20.1.4")
    world.run(3.0)
    here, there = world["fjord"].replica.own, world["tundra"].remote("fjord")
    assert sorted(here.elements.entries()) == sorted(there.elements.entries())
    assert there.elements.get(newer[0]) == (here.elements.get(newer[0]))
    assert (there.head, there.record) == (here.head, here.record)
    assert world["tundra"].sees("fjord") == ["10.20.1.4"]
    assert {one.sender for one in world.transfers("tundra")} == {"mesa"}
    assert all(node.replica.repairs.begun == 0 for node in world.nodes.values())
    world["fjord"].withdraw()
    world.run(1.0)
    assert world["tundra"].sees("fjord") == []
    assert len(world.digests()) == 1


@pytest.mark.parametrize("shape", ["line", "star", "ring"])
def test_any_connected_shape_converges(shape: str) -> None:
    names = ["a", "b", "c", "d", "e"]
    world = published(*names)
    links = {
        "line": list(pairwise(names)),
        "star": [("a", name) for name in names[1:]],
        "ring": [*pairwise(names), ("e", "a")],
    }[shape]
    for one, other in links:
        world.connect(one, other)
    for at, name in enumerate(names):
        world[name].publish(f"10.20.{at}.1")
    world.run(12.0)
    assert len(world.digests()) == 1
    for name in names:
        assert [world[name].sees(o) for o in names] == [[f"10.20.{at}.1"] for at in range(5)]


def test_when_a_link_breaks_a_relay_takes_over_and_gives_way_again() -> None:
    world = meshed("fjord", "mesa", "tundra")
    world.cut("fjord", "tundra")
    world["fjord"].publish("10.20.1.4")
    world.run(3.0)
    assert world["tundra"].sees("fjord") == ["10.20.1.4"]
    assert [one.sender for one in world.transfers("tundra")] == ["mesa"]
    world.connect("tundra", "fjord")
    world.run(3.0)
    world.sent.clear()
    world["fjord"].publish("10.20.1.5")
    world.run(3.0)
    assert [one.sender for one in world.transfers("tundra")] == ["fjord"]


def test_a_change_is_encoded_once_for_all() -> None:
    world = meshed("a", "b", "c", "d")
    before = world["a"].replica.encoded_chunks
    world["a"].publish("10.20.1.4")
    world.run(0.1)
    assert world["a"].replica.encoded_chunks == before + 1


def test_who_does_not_take_packed_transfers_gets_plain_ones() -> None:
    """An agent of an earlier minor version in the middle: both ways, and through it."""
    world = published("fjord", "mesa", "tundra")
    world["mesa"].packed = False
    world.crash("mesa")
    world.connect("fjord", "mesa")
    world.connect("mesa", "tundra")
    world.run(5.0)
    world.sent.clear()
    before = world["mesa"].replica.encoded_chunks
    for name in ("fjord", "mesa", "tundra"):
        world[name].publish(f"10.20.1.{len(name)}")
    world.run(5.0)
    for sent in world.transfers():
        packed = encode_packed(sent.message) if isinstance(sent.message, m.Transfer) else b""
        taken = sent.receiver != "mesa"
        assert sent.frame == (packed if taken else encode(sent.message))
    assert {sent.receiver for sent in world.transfers()} == {"fjord", "mesa", "tundra"}
    assert world["mesa"].replica.encoded_chunks > before
    assert len(world.digests()) == 1


def test_a_chunk_is_encoded_once_in_each_form() -> None:
    world = published("a", "b", "c", "d", "e")
    for name in ("d", "e"):
        world[name].packed = False
        world.crash(name)
    world.mesh()
    world.run(3.0)
    before = world["a"].replica.encoded_chunks
    world["a"].publish("10.20.1.4")
    world.run(0.1)
    assert world["a"].replica.encoded_chunks == before + 2
    assert all(world[name].sees("a") == ["10.20.1.4"] for name in ("b", "c", "d", "e"))


def test_an_unchanged_service_costs_no_stamp_and_no_frame() -> None:
    world = meshed("fjord", "mesa")
    world["fjord"].publish("10.20.1.4")
    world.run(3.0)
    version = world["fjord"].replica.own.elements.version
    assert world["fjord"].say("10.20.1.4") == 0
    assert not world["fjord"].replica.own.dirty
    assert world["fjord"].replica.own.elements.version == version


# ---- when it is sent ----------------------------------------------------------------------------


def test_nothing_of_a_batch_leaves_before_it_is_on_disk() -> None:
    world = meshed("fjord", "mesa")
    before = world["mesa"].version("fjord")
    old = set(world["fjord"].replica.own.elements.entries())
    world["fjord"].say("10.20.1.4")
    world.run(5.0)
    assert world["mesa"].version("fjord") == before
    world["fjord"].seal()
    late = Puppet(world["fjord"], "tundra")
    late.hello()
    late.say(m.Want(FJORD, Version(0, 0)))
    world.run(5.0)
    heard = late.heard()
    sent = [x for x in heard if isinstance(x, m.Transfer)]
    assert [x.head and x.head.version for x in sent] == [before]
    assert {entry for x in sent for entry in x.entries} == old
    told = [advert for x in heard if isinstance(x, m.Heads) for advert in x.adverts]
    assert {advert.version for advert in told if advert.origin == FJORD} == {before}
    assert world["mesa"].version("fjord") == before
    world["fjord"].store()
    world["fjord"].send()
    world.run(1.0)
    assert world["mesa"].sees("fjord") == ["10.20.1.4"]
    assert any(isinstance(x, m.Transfer) for x in late.heard())


def test_a_peer_that_comes_under_load_without_a_pause_gets_everything() -> None:
    world = published("fjord", "mesa")
    busy = world["fjord"]
    busy.say("10.20.1.4", "10.20.1.5")
    busy.seal()
    world.connect("fjord", "mesa")
    for number in range(20):
        world.run(0.5)
        busy.store()
        busy.send()
        busy.say("10.20.1.4", "10.20.1.5", ready=number % 2 == 0)
        busy.seal()
    world.run(1.0)
    assert world["mesa"].sees("fjord") == ["10.20.1.4", "10.20.1.5"]
    assert world["mesa"].version("fjord") > ZERO


def test_a_change_made_while_a_batch_is_stored_waits_for_the_next() -> None:
    world = meshed("fjord", "mesa")
    world["fjord"].say("10.20.1.4")
    world["fjord"].seal()
    world["fjord"].say("10.20.1.5")
    world["fjord"].store()
    world["fjord"].send()
    world.run(1.0)
    assert world["mesa"].sees("fjord") == ["10.20.1.4"]
    world["fjord"].publish()
    world.run(1.0)
    assert world["mesa"].sees("fjord") == ["10.20.1.5"]


def test_other_origins_are_not_served_before_the_view_is_current() -> None:
    world = published("fjord", "mesa", "tundra")
    world["mesa"].gated = True
    world["mesa"].replica.announcements.relaying = False
    world["mesa"].peers = frozenset({"fjord", "tundra", "steppe"})
    world["mesa"].begun = world["mesa"].begun.__class__(
        0.0, empty_state=False, configured=frozenset({"steppe", "taiga"})
    )
    world.connect("fjord", "mesa")
    world.connect("mesa", "tundra")
    world["fjord"].publish("10.20.1.4")
    world.run(5.0)
    assert world["mesa"].sees("fjord") == ["10.20.1.4"]
    assert world["tundra"].version("fjord") == Version(0, 0)
    # Its peers know already whom they will get it from.
    assert Origin("fjord") in world["tundra"].replica.remotes
    world.run(6.0)
    assert world["tundra"].sees("fjord") == ["10.20.1.4"]


def test_a_slow_reader_gets_the_present_state_and_costs_no_memory() -> None:
    world = meshed("fjord", "mesa")
    (link,) = world.links
    link.towards("mesa").blocked = True
    (session,) = world["fjord"].replica.sessions.values()
    for turn in range(500):
        world["fjord"].publish(f"10.20.1.{turn % 5}")
    world.run(2.0)
    assert len(session.ready) <= 1
    assert len(link.towards("mesa").inbox) < 10
    assert len(session.take_outbox()) <= 3
    world.break_(link)
    world.connect("fjord", "mesa")
    world.sent.clear()
    world.run(2.0)
    assert sum(sent.entries for sent in world.transfers("mesa")) <= 6
    assert world["mesa"].sees("fjord") == ["10.20.1.4"]


def test_a_peer_that_does_not_read_is_told_nothing_more_until_it_does() -> None:
    # Its adverts would otherwise pile up with every beat.
    world = published("fjord")
    puppet = Puppet(world["fjord"], "mesa")
    puppet.hello()
    for turn in range(60):
        world["fjord"].publish(f"10.20.1.{turn}")
        puppet.say(m.Beat(1, 0, 0, b""))
        world.run(1.0)
    assert len(puppet.heard()) < 10


def test_a_bootstrap_is_interleaved_with_news() -> None:
    world = published("fjord", "mesa", "tundra", chunk_bytes=300)
    world.connect("fjord", "mesa")
    for number in range(60):
        world["fjord"].say(f"10.20.1.{number}", key=ServiceKey("shop", f"s{number}"))
    world["fjord"].publish()
    world.run(3.0)
    world.connect("mesa", "tundra", delay=0.2)
    world.run(1.5)
    assert not world["tundra"].replica.remotes[FJORD].known
    world["mesa"].publish("10.40.1.4")
    world.run(1.5)
    assert world["tundra"].sees("mesa") == ["10.40.1.4"]
    assert not world["tundra"].replica.remotes[FJORD].known
    world.run(60.0)
    assert world["tundra"].sees("fjord", ServiceKey("shop", "s59")) == ["10.20.1.59"]


# ---- restarts and lost disks --------------------------------------------------------------------


def test_a_restart_continues_with_deltas() -> None:
    world = meshed("fjord", "mesa")
    world["fjord"].publish("10.20.1.4")
    world.run(1.0)
    world["mesa"].save()
    world.crash("mesa")
    assert world["mesa"].sees("fjord") == ["10.20.1.4"]
    world.sent.clear()
    world["fjord"].publish("10.20.1.5")
    world.connect("fjord", "mesa")
    world.run(3.0)
    assert world["mesa"].sees("fjord") == ["10.20.1.5"]
    assert world.snapshots() == []


def test_commits_that_were_not_stored_are_pulled_again() -> None:
    world = meshed("fjord", "mesa")
    world["mesa"].save()
    world["fjord"].publish("10.20.1.4")
    world.run(1.0)
    assert world["mesa"].unsaved
    world.crash("mesa")
    assert world["mesa"].sees("fjord") == []
    world.connect("fjord", "mesa")
    world.run(3.0)
    assert world["mesa"].sees("fjord") == ["10.20.1.4"]


def test_a_restarted_idle_origin_signs_its_head_anew_at_once_and_goes_on_doing_so() -> None:
    # With nothing to publish it would otherwise look dead to everybody behind a relay.
    world = line("fjord", "mesa", "tundra")
    world["mesa"].save()
    world["tundra"].save()
    world.crash("fjord")
    world.connect("mesa", "fjord")
    world.run(60.0)
    remote = world["tundra"].remote("fjord")
    assert remote.fresh_at is not None
    assert world.now - remote.fresh_at < LAGGING_RELAYED_SECONDS
    assert not world["fjord"].replica.own.dirty


def test_a_restarted_origin_serves_its_head_only_with_a_record_that_fits() -> None:
    world = meshed("fjord", "mesa")
    world["fjord"].publish("10.20.1.4")
    world.run(1.0)
    world["fjord"].signer = FakeSigner("fjord", "new key")
    world.crash("fjord")
    world.crash("mesa", empty=True)
    world.connect("fjord", "mesa")
    world.run(3.0)
    assert world["mesa"].sees("fjord") == ["10.20.1.4"]
    assert "peer_rejected" not in world["mesa"].events()


def test_after_a_lost_disk_a_higher_epoch_is_opened_and_nothing_flaps() -> None:
    world = meshed("fjord", "mesa", "tundra")
    world["fjord"].publish("10.20.1.4", "10.20.1.5")
    world.run(3.0)
    for node in world.nodes.values():
        node.gated = True
    world.crash("fjord", empty=True)
    fjord = world["fjord"]
    assert not fjord.may_publish
    world.connect("mesa", "fjord")
    world.run(3.0)
    assert not fjord.may_publish
    world.connect("tundra", "fjord")
    world.run(3.0)
    assert fjord.may_publish
    assert fjord.replica.own.epoch == 2
    assert fjord.events().count("own_origin_ahead") == 1
    fjord.publish()
    world.run(3.0)
    for name in ("mesa", "tundra"):
        assert world[name].sees("fjord") == ["10.20.1.4", "10.20.1.5"]
        assert world[name].version("fjord").epoch == 2
        for change in world[name].changed:
            assert all(after is not None for _, _, after, _ in change.changes)
    assert len(world.digests()) == 1


@pytest.mark.parametrize("minutes_behind", [0, 1])
def test_a_lost_disk_is_noticed_even_when_no_peer_was_there_at_first(minutes_behind: int) -> None:
    world = meshed("fjord", "mesa")
    world["fjord"].publish("10.20.1.4", "10.20.1.5")
    world.run(3.0)
    world["fjord"].gated = True
    world["fjord"].skew_ns = -60_000_000_000 * minutes_behind
    world["fjord"].say("10.20.1.5")
    world.crash("fjord", empty=True)
    world.run(29.0)
    assert not world["fjord"].may_publish
    world.run(2.0)
    assert world["fjord"].may_publish
    world["fjord"].publish()
    world.connect("mesa", "fjord")
    world.run(1.0)
    if world["fjord"].replica.own.dirty:
        world["fjord"].publish()
    world.run(5.0)
    assert world["mesa"].sees("fjord") == ["10.20.1.5"]
    assert len(world.digests()) == 1


# ---- tombstones ---------------------------------------------------------------------------------


def test_tombstones_go_once_every_member_has_acknowledged_them() -> None:
    world = published("fjord", "mesa", "tundra")
    world["fjord"].replica.expect_members(["mesa", "tundra"], 0.0)
    world.connect("fjord", "mesa")
    world["fjord"].publish("10.20.1.4")
    world["fjord"].withdraw()
    world.run(60.0)
    own = world["fjord"].replica.own
    assert own.elements.tombstone_count == 1
    world.connect("fjord", "tundra")
    world.run(15.0)
    assert own.dirty
    world["fjord"].publish()
    assert own.elements.tombstone_count == 0
    world.run(3.0)
    for name in ("mesa", "tundra"):
        assert world[name].remote("fjord").elements.tombstone_count == 0
    acknowledged = world["fjord"].replica.acknowledged
    assert acknowledged["tundra"].version == own.elements.version


def test_tombstones_go_while_changes_never_pause() -> None:
    world = published("fjord", "mesa")
    world["fjord"].replica.expect_members(["mesa"], 0.0)
    world.connect("fjord", "mesa")
    own, most = world["fjord"].replica.own, 0
    for second in range(60):
        world["fjord"].publish(f"10.20.1.{second}")
        world.run(1.0)
        most = max(most, own.elements.tombstone_count)
    assert 0 < most < 15
    assert world["mesa"].remote("fjord").elements.tombstone_count <= most


def test_what_was_deleted_stays_deleted_whoever_returns_first() -> None:
    world = meshed("fjord", "mesa", "tundra")
    world["fjord"].publish("10.20.1.4", "10.20.1.5")
    world.run(3.0)
    world.cut("tundra")
    world["fjord"].publish("10.20.1.5")
    own = world["fjord"].replica.own
    own.move_floor(own.elements.version.stamp, world["fjord"].wall_ns)
    world["fjord"].publish()
    world.run(3.0)
    world.crash("mesa", empty=True)
    world.connect("mesa", "tundra")
    world.run(5.0)
    world["mesa"].publish()
    assert world["mesa"].sees("fjord") == ["10.20.1.4", "10.20.1.5"]
    world.connect("fjord", "mesa")
    world.run(10.0)
    for name in ("mesa", "tundra"):
        assert world[name].sees("fjord") == ["10.20.1.5"]
        assert live(world[name].remote("fjord").elements) == live(own.elements)
    assert len(world.digests()) == 1


# ---- beats --------------------------------------------------------------------------------------


def test_beats_measure_round_trip_offset_and_agreement() -> None:
    world = published("fjord", "mesa")
    world["mesa"].skew_ns = 3_000_000_000
    world.connect("fjord", "mesa", delay=0.05)
    world.run(20.0)
    (session,) = world["fjord"].replica.sessions.values()
    assert 90_000_000 <= session.rtt_ns <= 110_000_000
    assert abs(session.offset_ns - 3_000_000_000) < 10_000_000
    assert session.peer_digest == world["fjord"].replica.announcements.digest()
    world["mesa"].publish("10.40.1.4")
    world.run(1.0)
    remote = world["fjord"].remote("mesa")
    # 50 ms on the way, measured across clocks that are three seconds apart.
    assert remote.latencies.summary()["max"] == pytest.approx(50.0, abs=11.0)


def test_a_directly_linked_origin_is_fresh_by_its_beats() -> None:
    world = meshed("fjord", "mesa")
    remote = world["mesa"].remote("fjord")
    for _ in range(10):
        world.run(1.0)
        assert remote.fresh_at is not None
        assert world.now - remote.fresh_at < 2.2


def test_an_idle_origin_stays_fresh_through_a_relay_at_no_new_version() -> None:
    world = line("fjord", "mesa", "tundra")
    remote = world["tundra"].remote("fjord")
    version = remote.version
    for _ in range(60):
        world.run(1.0)
        assert remote.fresh_at is not None
        assert world.now - remote.fresh_at < 12.5
    assert remote.version == version
    assert world.transfers() == []
    told = [x.message for x in world.sent if isinstance(x.message, m.Heads)]
    assert told == []


def test_a_key_that_changes_while_a_batch_is_stored_signs_right_after_it() -> None:
    world = meshed("fjord", "mesa")
    fjord = world["fjord"]
    fjord.say("10.20.1.4")
    fjord.seal()
    fjord.replica.own.signer = FakeSigner("fjord", "2")
    assert fjord.replica.reissue_now(fjord.wall_ns) == []
    fjord.store()
    fjord.send()
    world.run(0.5)
    head = world["mesa"].remote("fjord").head
    assert head is not None
    assert head.key_id == FakeSigner("fjord", "2").key_id


def test_a_new_key_signs_the_present_head_anew() -> None:
    world = World("fjord", "mesa")
    assert world["fjord"].replica.reissue_now(5) == []
    world.mesh()
    world["fjord"].publish("10.20.1.4")
    world["fjord"].seal()
    assert world["fjord"].replica.reissue_now(5) == []
    world["fjord"].store()
    world["fjord"].send()
    world.run(1.0)
    head = world["mesa"].remote("fjord").head
    world["fjord"].perform(world["fjord"].replica.reissue_now(world["fjord"].wall_ns))
    world.run(1.0)
    seen = world["mesa"].remote("fjord").head
    assert head is not None
    assert seen is not None
    assert seen.issued_at > head.issued_at
    assert seen.same_state(head)


def test_a_silent_link_is_closed_and_its_origins_are_taken_from_others() -> None:
    world = meshed("fjord", "mesa", "tundra")
    (link,) = world.between("fjord", "tundra")
    for end in link.ends:
        end.blocked = True
    world["fjord"].publish("10.20.1.4")
    world.run(5.0)
    assert world["tundra"].sees("fjord") == ["10.20.1.4"]
    assert world["tundra"].events() == ["source_stalled"]
    world.run(8.0)
    assert world.between("fjord", "tundra") == []


def test_a_link_without_hello_is_closed_once() -> None:
    world = published("fjord")
    puppet = Puppet(world["fjord"], "mesa")
    world.run(5.2)
    session = world["fjord"].replica.sessions[puppet.number]
    assert session.closing
    assert puppet.hello() == []
    assert world["fjord"].replica.tick(world.now, world["fjord"].wall_ns) == []


# ---- duplicate links ----------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["fjord", "mesa"])
@pytest.mark.parametrize("between", [0.0, 0.015, 1.0])
def test_of_two_links_the_one_dialled_by_the_smaller_stays(first: str, between: float) -> None:
    second = "mesa" if first == "fjord" else "fjord"
    world = published("fjord", "mesa")
    world.connect(first, second)
    world.run(between)
    world.connect(second, first)
    world.run(3.0)
    (link,) = world.links
    end = link.towards("fjord")
    assert end.node.replica.sessions[end.number].dialled
    assert "peer_rejected" not in world["fjord"].events() + world["mesa"].events()
    world["mesa"].publish("10.40.1.4")
    world.run(3.0)
    assert world["fjord"].sees("mesa") == ["10.40.1.4"]


def test_of_two_links_dialled_by_one_side_the_newer_stays() -> None:
    world = published("fjord", "mesa")
    old = world.connect("fjord", "mesa")
    world.run(1.0)
    new = world.connect("fjord", "mesa")
    world.run(1.0)
    assert world.links == [new]
    assert not old.alive


def test_a_message_to_a_session_that_is_gone_is_nothing() -> None:
    world = published("fjord")
    replica = world["fjord"].replica
    assert replica.receive(77, encode(m.Stop(FJORD)), 0.0, 0) == []
    assert replica.close_session(77, 0.0) == []
    assert replica.pull(77) == []


def test_an_author_of_the_test_kit_is_what_a_node_is() -> None:
    world = published("fjord")
    puppet = Puppet(world["fjord"], "mesa")
    puppet.hello()
    author = Author(world, "mesa")
    author.publish("10.40.1.4")
    puppet.serve(author)
    assert world["fjord"].sees("mesa") == ["10.40.1.4"]
    assert author.own.elements.since(0, 1 << 20).entries[0][2] == ADD


# ---- relays in a ring --------------------------------------------------------------------------


def source_of(world: World, name: str, cluster: str = "fjord") -> str | None:
    """From whom a node takes an origin."""
    replica = world[name].replica
    session = replica.sessions.get(replica.remotes[Origin(cluster)].source or 0)
    return None if session is None else session.cluster


def unheard(world: World, name: str, cluster: str = "fjord") -> float:
    """Seconds since a node last had a sign of life of an origin."""
    at = world[name].replica.remotes[Origin(cluster)].fresh_at
    assert at is not None
    return world.now - at


def test_two_that_lose_an_idle_origin_at_once_do_not_take_it_from_each_other() -> None:
    """They are each other's nearest, and only the third, far away, still hears of it."""
    world = World("fjord", "mesa", "steppe", "tundra", tick=0.25)
    for at, node in enumerate(world.nodes.values()):
        node.publish(f"10.{at}.0.1")
    world.connect("mesa", "tundra", 0.001)
    for one, other in (("mesa", "steppe"), ("tundra", "steppe"), ("fjord", "steppe")):
        world.connect(one, other, 0.05)
    world.connect("fjord", "mesa")
    world.connect("fjord", "tundra")
    world.run(8.0)
    world.cut("fjord", "mesa")
    world.cut("fjord", "tundra")
    world.run(0.5)
    assert {source_of(world, "mesa"), source_of(world, "tundra")} != {"mesa", "tundra"}
    for _ in range(6):
        world.run(10.0)
        assert max(unheard(world, name) for name in ("mesa", "tundra")) <= 13.0


@pytest.mark.parametrize(("source", "other"), [("fjord", "steppe"), ("steppe", "fjord")])
def test_of_two_that_take_an_origin_from_each_other_the_larger_turns_elsewhere(
    source: str, other: str
) -> None:
    world = World("mesa")
    world["mesa"].publish("10.40.1.4")
    author = Author(world, "tundra")
    author.publish("10.60.1.4")
    puppets = {name: Puppet(world["mesa"], name) for name in (source, other)}
    for puppet in puppets.values():
        puppet.hello()
    puppets[source].serve(author)
    puppets[other].say(m.Heads((author.advert,)))
    assert source_of(world, "mesa", "tundra") == source
    puppets[source].say(m.Want(Origin("tundra"), author.head.version))
    assert source_of(world, "mesa", "tundra") == ("steppe" if source == "fjord" else source)
    asked = [x for x in puppets[other].heard() if isinstance(x, m.Want)]
    assert [want.origin for want in asked] == [Origin("tundra")] * (source == "fjord")


def test_a_ring_of_relays_around_an_idle_origin_is_left_before_it_looks_lagging() -> None:
    world = World("fjord", "steppe", "a", "b", "c", tick=0.25)
    for at, node in enumerate(world.nodes.values()):
        node.publish(f"10.{at}.0.1")
    for one, other in (("fjord", "steppe"), ("steppe", "a"), ("a", "b"), ("b", "c")):
        world.connect(one, other)
        world.run(2.0)
    world.connect("c", "a")
    world.run(2.0)
    world.cut("a", "steppe")
    world.run(1.0)
    assert [source_of(world, name) for name in ("a", "b", "c")] == ["c", "a", "b"], "a ring"
    world.connect("steppe", "c", 0.2)
    longest = 0.0
    for _ in range(40):
        world.run(1.0)
        longest = max(longest, *(unheard(world, name) for name in ("a", "b", "c")))
    assert 12.0 < longest < 25.0
    assert max(unheard(world, name) for name in ("a", "b", "c")) <= 13.0


def test_a_relay_of_an_origin_that_is_gone_is_left_ever_more_seldom() -> None:
    world = World("fjord", "mesa", "steppe", "tundra", tick=0.25)
    for at, node in enumerate(world.nodes.values()):
        node.publish(f"10.{at}.0.1")
    world.mesh()
    world.run(8.0)
    world.cut("fjord")
    world.run(600.0)
    stalls = [n for n in world["mesa"].notices if n.event == "source_stalled"]
    assert 5 <= len(stalls) <= 20
