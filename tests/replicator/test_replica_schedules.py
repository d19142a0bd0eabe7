"""Replicas in virtual time: what every agent's core must do, told as schedules."""

from __future__ import annotations

from itertools import pairwise

import pytest

from crdt import Origin, Version
from replicator import messages as m
from replicator.codec import decode, encode
from replicator.cursor import Cursor
from tests.support.net_of_replicas import CART, HashSigner, Net, local


def transfers(net: Net) -> list[m.Transfer]:
    """Every transfer under way."""
    found = []
    for wire in net.wires:
        for queue in wire.under_way:
            found += [x for frame in queue if isinstance(x := decode(frame), m.Transfer)]
    return found


def test_a_change_reaches_every_cluster_of_a_full_mesh_exactly_once() -> None:
    net = Net("fjord", "mesa", "tundra")
    net.mesh()
    for name in ("fjord", "mesa", "tundra"):
        net[name].publish()
    net.settle()
    net["fjord"].state(local(CART, "10.20.1.4"))
    sent = []
    for wire in list(net.wires):
        for direction in (0, 1):
            net.pump(wire, direction)
    sent = [x for x in transfers(net) if x.entries]
    assert len(sent) == 2
    net.settle()
    assert transfers(net) == []
    for name in ("mesa", "tundra"):
        assert net[name].sees("fjord") == ["10.20.1.4"]
        assert sum(len(c.changes) for c in net[name].changed if c.changes) == 2
    assert len(net.digests()) == 1


def test_an_unchanged_service_gets_no_stamp_and_costs_no_frame() -> None:
    net = Net("fjord", "mesa")
    net.mesh()
    net["fjord"].state(local(CART, "10.20.1.4"))
    net.settle()
    version, frames = net["fjord"].replica.own.elements.version, net.frames
    assert net["fjord"].say(local(CART, "10.20.1.4")) == 0
    assert not net["fjord"].replica.own.dirty
    net.settle()
    assert net["fjord"].replica.own.elements.version == version
    assert net.frames == frames


def test_nothing_of_a_batch_is_sent_before_it_is_stored() -> None:
    net = Net("fjord", "mesa")
    net.mesh()
    net["fjord"].publish()
    net.settle()
    net["fjord"].say(local(CART, "10.20.1.4"))
    net.settle()
    assert net["mesa"].sees("fjord") == []
    net["fjord"].seal()
    net.pass_time(3.0)
    assert net["mesa"].sees("fjord") == []
    net["fjord"].perform(net["fjord"].replica.published(net.now))
    net.settle()
    assert net["mesa"].sees("fjord") == ["10.20.1.4"]


def test_a_missing_link_is_relayed_with_the_origins_own_bytes() -> None:
    net = Net("fjord", "mesa", "tundra")
    net.connect("fjord", "mesa")
    net.connect("mesa", "tundra")
    for name in ("fjord", "mesa", "tundra"):
        net[name].publish()
    net["fjord"].state(local(CART, "10.20.1.4"))
    net.pass_time(3.0)
    assert net["tundra"].sees("fjord") == ["10.20.1.4"]
    here = net["fjord"].replica.own
    there = net["tundra"].replica.remotes[Origin("fjord")]
    assert sorted(here.elements.entries()) == sorted(there.elements.entries())
    assert there.head == here.head
    net["fjord"].state(local(CART))
    net.settle()
    assert net["tundra"].sees("fjord") == []
    assert len(net.digests()) == 1


@pytest.mark.parametrize("shape", ["line", "star", "ring"])
def test_any_connected_shape_converges(shape: str) -> None:
    names = ["a", "b", "c", "d", "e"]
    net = Net(*names)
    links = {
        "line": list(pairwise(names)),
        "star": [("a", name) for name in names[1:]],
        "ring": [*pairwise(names), ("e", "a")],
    }[shape]
    for one, other in links:
        net.connect(one, other)
    for at, name in enumerate(names):
        net[name].state(local(CART, f"10.20.{at}.1"))
    net.pass_time(10.0)
    assert len(net.digests()) == 1
    for name in names:
        assert [net[name].sees(origin) for origin in names] == [
            [f"10.20.{at}.1"] for at in range(5)
        ]


def test_c40_flapping_during_a_partition_healed_through_a_third_party() -> None:
    net = Net("fjord", "mesa", "tundra")
    net.mesh()
    net["fjord"].state(local(CART, "10.20.1.4"))
    net["mesa"].publish()
    net["tundra"].publish()
    net.pass_time(3.0)
    net.cut("tundra")
    net["fjord"].state(local(CART))
    net.settle()
    net["fjord"].state(local(CART, "10.20.1.4", ready=False))
    net.settle()
    assert net["mesa"].sees("fjord") == ["10.20.1.4!"]
    net.cut("fjord")
    net["fjord"].state(local(CART))
    assert net["tundra"].sees("fjord") == ["10.20.1.4"]
    net.connect("tundra", "mesa")
    net.settle()
    assert net["tundra"].sees("fjord") == ["10.20.1.4!"]
    snapshots = [c for c in net["tundra"].changed[2:] if c.seconds is None]
    net.connect("fjord", "mesa")
    net.connect("fjord", "tundra")
    net.pass_time(3.0)
    assert [net[name].sees("fjord") for name in ("fjord", "mesa", "tundra")] == [[], [], []]
    assert len(net.digests()) == 1
    assert snapshots == []


def test_a_deleted_endpoint_stays_deleted_after_its_tombstone_is_gone() -> None:
    net = Net("fjord", "mesa", "tundra")
    net.mesh()
    net["fjord"].state(local(CART, "10.20.1.4", "10.20.1.5"))
    net.pass_time(3.0)
    net.cut("tundra")
    net["fjord"].state(local(CART, "10.20.1.5"))
    net.settle()
    own = net["fjord"].replica.own
    own.move_floor(own.elements.version.stamp, net.wall_ns("fjord"))
    net["fjord"].publish()
    net.settle()
    assert own.elements.tombstone_count == 0
    assert net["mesa"].replica.remotes[Origin("fjord")].elements.tombstone_count == 0
    net.connect("mesa", "tundra")
    net.pass_time(3.0)
    assert net["tundra"].sees("fjord") == ["10.20.1.5"]
    assert net["tundra"].changed[-1].seconds is None
    assert len(net.digests()) == 1


def test_tombstones_are_collected_once_everybody_has_acknowledged_them() -> None:
    net = Net("fjord", "mesa")
    net["fjord"].replica.expect_members(["mesa", "tundra"], net.now)
    net.mesh()
    net["fjord"].state(local(CART, "10.20.1.4"))
    net["fjord"].state(local(CART))
    net.pass_time(30.0)
    own = net["fjord"].replica.own
    assert own.elements.tombstone_count == 1
    net.now += 3600.0
    net["fjord"].tick()
    assert own.dirty
    net["fjord"].publish()
    assert own.elements.tombstone_count == 0


def test_a_crash_loses_nothing_that_was_published_and_resurrects_nothing() -> None:
    net = Net("fjord", "mesa")
    net.mesh()
    net["fjord"].state(local(CART, "10.20.1.4", "10.20.1.5"))
    net.settle()
    net["fjord"].state(local(CART, "10.20.1.4"))
    net["fjord"].say(local(CART, "10.20.1.4", "10.20.1.9"))
    version = net["fjord"].replica.own.elements.version
    net.crash("fjord")
    assert net["fjord"].replica.own.elements.version == version
    assert net["fjord"].say(local(CART, "10.20.1.4", "10.20.1.9")) == 1
    net["fjord"].publish()
    net["fjord"].publish()
    assert net["fjord"].replica.own.elements.version.stamp > version.stamp
    net.crash("mesa")
    assert net["mesa"].sees("fjord") == ["10.20.1.4", "10.20.1.5"]
    net.mesh()
    net.pass_time(3.0)
    assert net["mesa"].sees("fjord") == ["10.20.1.4", "10.20.1.9"]


def test_an_agent_that_lost_its_disk_opens_a_higher_epoch_and_nobody_flaps_to_empty() -> None:
    net = Net("fjord", "mesa", "tundra")
    net.mesh()
    net["fjord"].state(local(CART, "10.20.1.4"))
    net.pass_time(3.0)
    net["fjord"].disk.__init__()  # type: ignore[misc]  # the disk is gone
    net.crash("fjord")
    net.mesh()
    net.settle()
    assert net["mesa"].sees("fjord") == ["10.20.1.4"]
    assert "own_origin_ahead" in [notice.event for notice in net["fjord"].notices]
    net["fjord"].state(local(CART, "10.20.1.4", "10.20.1.6"))
    net.pass_time(3.0)
    assert net["fjord"].replica.own.epoch == 2
    seen = [tuple(net[name].sees("fjord")) for name in ("mesa", "tundra")]
    assert seen == [("10.20.1.4", "10.20.1.6")] * 2
    removed = [c for c in net["mesa"].changed for x in c.changes if x.after is None]
    assert removed == []


def test_a_head_of_an_older_epoch_is_never_taken() -> None:
    net = Net("fjord", "mesa")
    net.mesh()
    net["fjord"].state(local(CART, "10.20.1.4"))
    net.settle()
    old = Net("fjord", "mesa")
    old["fjord"].replica.own.open_epoch(6)
    old.truth = net.truth
    net["fjord"].replica.own.open_epoch(4)
    net["fjord"].publish()
    net.settle()
    remote = net["mesa"].replica.remotes[Origin("fjord")]
    before = remote.version
    assert before.epoch == 5
    zombie = Net("fjord")
    zombie.now = 50.0
    zombie["fjord"].state(local(CART, "10.66.6.6"))
    own = zombie["fjord"].replica.own
    assert own.head is not None
    entries = tuple(own.elements.entries())
    frame = m.Transfer(own.origin, 1, True, 0, own.head.stamp, entries, own.head)  # noqa: FBT003
    wire = net.wires[0]
    wire.under_way[0].append(encode(frame))
    net.settle()
    assert remote.version == before
    assert net["mesa"].sees("fjord") == ["10.20.1.4"]


def test_garbage_costs_the_connection_and_nothing_else() -> None:
    net = Net("fjord", "mesa")
    net.mesh()
    net["fjord"].state(local(CART, "10.20.1.4"))
    net.settle()
    digest = net["mesa"].replica.digest()
    net.wires[0].under_way[0].append(b"\x01\xc1")
    net.settle()
    assert net.wires == []
    assert net["mesa"].replica.digest() == digest
    assert net["mesa"].closed[0].code == 1008
    assert net["fjord"].notices[-1].event == "rejected_by_peer"


def test_a_message_before_the_hello_is_refused() -> None:
    net = Net("fjord", "mesa")
    wire = net.connect("fjord", "mesa")
    wire.under_way[0].append(encode(m.Stop(Origin("fjord"))))
    net.settle()
    assert net["mesa"].closed[0].reason == "hello_expected"


def test_unknown_messages_and_transfers_nobody_asked_for_are_ignored() -> None:
    net = Net("fjord", "mesa")
    net.mesh()
    net.settle()
    wire = net.wires[0]
    wire.under_way[0].append(encode(m.Unknown(99)))
    wire.under_way[0].append(
        encode(m.Transfer(Origin("tundra"), 1, False, 0, 5, (), None))  # noqa: FBT003
    )
    net.settle()
    assert net["mesa"].replica.ignored == 2
    assert net["mesa"].replica.receive(77, b"\x01", 0.0, 0) == []
    assert net["mesa"].replica.close_session(77, 0.0) == []
    assert net["mesa"].replica.pull(77) == []


def forged(net: Net, **changes: object) -> m.Transfer:
    """What fjord states now as a snapshot, with fields replaced."""
    own = net["fjord"].replica.own
    assert own.head is not None
    fields: dict[str, object] = {
        "origin": own.origin,
        "epoch": own.head.epoch,
        "snapshot": True,
        "start": 0,
        "to": own.head.stamp,
        "entries": tuple(own.elements.entries()),
        "head": own.head,
    }
    return m.Transfer(**{**fields, **changes})  # type: ignore[arg-type]


def test_forged_entries_are_never_visible_and_the_source_is_replaced() -> None:
    net = Net("fjord", "mesa")
    net.mesh()
    net["fjord"].publish()
    net.settle()
    net["fjord"].say(local(CART, "10.20.1.4"))
    net["fjord"].seal()
    victim = net["mesa"].replica.remotes[Origin("fjord")]
    before = victim.version
    real = forged(net)
    net.wires[0].under_way[0].append(encode(forged(net, entries=real.entries[:1])))
    net.settle()
    assert victim.version == before
    assert net["mesa"].replica.mismatches == 1
    assert net["mesa"].sees("fjord") == []
    net["fjord"].perform(net["fjord"].replica.published(net.now))
    net.pass_time(8.0)
    assert net["mesa"].sees("fjord") == ["10.20.1.4"]
    assert net["mesa"].changed[-1].seconds is None


@pytest.mark.parametrize("code", ["bad_signature", "not_owner"])
def test_what_breaks_the_protocol_is_refused_whole(code: str) -> None:
    net = Net("fjord", "mesa")
    net.mesh()
    net["fjord"].publish()
    net.settle()
    net["fjord"].say(local(CART, "10.20.1.4"))
    net["fjord"].seal()
    real = forged(net)
    assert real.head is not None
    if code == "bad_signature":
        frame = forged(net, head=real.head.signed(b"x" * 32))
    else:
        other = Net("tundra")
        other["tundra"].say(local(CART, "10.66.6.6"))
        other["tundra"].seal()
        entries = tuple(other["tundra"].replica.own.elements.entries())
        late = tuple((e, real.to, o, v) for e, _, o, v in entries)
        frame = forged(net, entries=late[:1])
    net.wires[0].under_way[0].append(encode(frame))
    net.settle()
    assert net["mesa"].closed[0].reason == code
    assert net["mesa"].sees("fjord") == []


def test_two_states_signed_at_one_version_are_reported_and_the_first_stays() -> None:
    net = Net("fjord", "mesa")
    net.mesh()
    net["fjord"].state(local(CART, "10.20.1.4"))
    net.settle()
    head = net["fjord"].replica.own.head
    assert head is not None
    twin = Net("fjord")["fjord"].replica.own
    del twin
    second = m.Transfer(
        head.origin,
        head.epoch,
        False,  # noqa: FBT003
        head.stamp,
        head.stamp,
        (),
        _resigned(head, count=head.count + 1),
    )
    net.wires[0].under_way[0].append(encode(second))
    net.settle()
    assert net["mesa"].notices[-1].event == "equivocation"
    assert net["mesa"].sees("fjord") == ["10.20.1.4"]


def _resigned(head: object, **changes: object):  # type: ignore[no-untyped-def]  # noqa: ANN202
    from dataclasses import replace  # noqa: PLC0415

    changed = replace(head, **changes)  # type: ignore[type-var]
    return changed.signed(HashSigner(changed.origin.cluster).sign(changed.canonical()))  # type: ignore[attr-defined]


def test_an_idle_origin_stays_fresh_through_a_relay() -> None:
    net = Net("fjord", "mesa", "tundra")
    net.connect("fjord", "mesa")
    net.connect("mesa", "tundra")
    for name in ("fjord", "mesa", "tundra"):
        net[name].publish()
    net.pass_time(5.0)
    remote = net["tundra"].replica.remotes[Origin("fjord")]
    first = remote.fresh_at
    stamp = remote.version
    net.pass_time(25.0)
    assert first is not None
    assert remote.fresh_at is not None
    assert net.now - remote.fresh_at < 12.0
    assert remote.version == stamp


def test_beats_measure_round_trip_offset_and_agreement() -> None:
    net = Net("fjord", "mesa")
    net.skew["mesa"] = 3_000_000_000
    net.mesh()
    net["fjord"].publish()
    net["mesa"].publish()
    net.pass_time(5.0)
    (session,) = net["fjord"].replica.sessions.values()
    assert session.offset_ns == 3_000_000_000
    assert session.rtt_ns == 0
    assert session.peer_digest == net["fjord"].replica.digest()
    remote = net["fjord"].replica.remotes[Origin("mesa")]
    net["mesa"].state(local(CART, "10.40.1.4"))
    net.settle()
    assert remote.latencies.summary()["max"] == 0.0
    assert remote.fresh_at == net.now


def test_a_silent_link_is_closed_and_a_link_without_hello_too() -> None:
    net = Net("fjord", "mesa")
    net.mesh()
    net.settle()
    number, _ = net["fjord"].replica.open_session("tundra", dialled=True, now=net.now)
    net.now += 5.5
    net["fjord"].tick()
    assert [(c.number, c.reason) for c in net["fjord"].closed] == [(number, "no hello")]
    net.now += 5.0
    net["fjord"].tick()
    assert "silent" in [c.reason for c in net["fjord"].closed]


def test_a_stalled_source_is_replaced_by_a_peer_that_has_more() -> None:
    net = Net("fjord", "mesa", "tundra")
    net.connect("fjord", "mesa")
    net.connect("mesa", "tundra")
    quiet = net.connect("fjord", "tundra")
    for name in ("fjord", "mesa", "tundra"):
        net[name].publish()
    net.settle()
    net.wires.remove(quiet)
    net["fjord"].state(local(CART, "10.20.1.4"))
    net.pass_time(1.0)
    assert net["tundra"].sees("fjord") == []
    net.pass_time(4.0)
    assert net["tundra"].sees("fjord") == ["10.20.1.4"]
    assert "source_stalled" in [notice.event for notice in net["tundra"].notices]
    net.wires.append(quiet)
    net.cut("fjord", "tundra")


def test_superseded_changes_collapse_for_a_peer_that_does_not_read() -> None:
    net = Net("fjord", "mesa")
    net.mesh()
    net["fjord"].publish()
    net.settle()
    wire = net.wires[0]
    for turn in range(300):
        net["fjord"].state(local(CART, "10.20.1.4", ready=bool(turn % 2)))
    (session,) = net["fjord"].replica.sessions.values()
    assert len(session.ready) == 1
    assert session.take_outbox() == []
    net.pump(wire, 0)
    assert len([x for x in transfers(net) if x.entries]) == 1
    net.settle()
    assert net["mesa"].sees("fjord") == ["10.20.1.4"]


def test_a_bootstrap_is_sent_in_bounded_chunks_and_news_goes_first() -> None:
    net = Net("fjord", "mesa")
    keys = [type(CART)("shop", f"s{number}") for number in range(900)]
    for key in keys:
        net["fjord"].say(local(key, *(f"10.20.{n}.{len(key.name)}" for n in range(5))))
    net["fjord"].publish()
    wire = net.connect("fjord", "mesa")
    for direction in (0, 1, 0, 1):
        net.pump(wire, direction)
        while net.deliver(wire, direction):
            pass
    net.pump(wire, 0)
    waiting = transfers(net)
    assert len(waiting) == 1
    assert waiting[0].head is None
    assert sum(map(len, wire.under_way[0])) < 200_000
    net.settle()
    assert net["mesa"].version("fjord") == net["fjord"].replica.own.elements.version


def test_one_encoded_chunk_serves_all_peers_at_the_same_cursor() -> None:
    net = Net("a", "b", "c", "d")
    net.mesh()
    for name in net.stations:
        net[name].publish()
    net.settle()
    before = net["a"].replica.encoded_chunks
    net["a"].state(local(CART, "10.20.1.4"))
    net.settle()
    assert net["a"].replica.encoded_chunks == before + 1


def test_c51_another_clusterset_is_refused_before_anything_is_exchanged() -> None:
    net = Net("fjord", "mesa")
    net["mesa"].replica.me = type(net["mesa"].replica.me)("staging", "mesa", "i", "u", "test")
    net["fjord"].publish()
    net.mesh()
    net.settle()
    assert {c.reason for c in net["fjord"].closed} == {"clusterset_mismatch"}
    assert net["mesa"].replica.remotes == {}


def test_c41_a_second_cluster_with_the_same_id_is_refused_and_the_first_stays() -> None:
    net = Net("fjord", "mesa")
    net.mesh()
    net["fjord"].state(local(CART, "10.20.1.4"))
    net.settle()
    copy = Net("fjord", "mesa")
    copy.now = 7.0
    me = copy["fjord"].replica.me
    copy["fjord"].replica.me = type(me)("set", "fjord", "other", "uid-other", "test")
    copy.stations["mesa"] = net["mesa"]
    net["mesa"].net = copy
    copy.truth = net.truth
    copy["fjord"].state(local(CART, "10.70.1.4"))
    copy.connect("fjord", "mesa")
    copy.settle()
    assert net["mesa"].closed[-1].reason == "cluster_id_conflict"
    assert net["mesa"].sees("fjord") == ["10.20.1.4"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"instance": "mesa-1"}, "peer_is_self_or_duplicate"),
        ({"cluster": "tundra"}, "identity_mismatch"),
        ({"role": "king"}, "bad_frame"),
    ],
)
def test_a_hello_that_does_not_fit_its_link_is_refused(change: dict[str, str], code: str) -> None:
    net = Net("fjord", "mesa")
    wire = net.connect("fjord", "mesa")
    fields = {
        "minor": 0,
        "clusterset": "set",
        "cluster": "fjord",
        "instance": "fjord-1",
        "role": "writer",
        "epoch": 1,
        "uid": "uid-fjord",
        "software": "x",
        "frame_limit": 1 << 20,
    }
    wire.under_way[0].append(encode(m.Hello(**{**fields, **change})))  # type: ignore[arg-type]
    net.settle()
    assert net["mesa"].closed[0].reason == code


def test_a_second_agent_of_our_own_cluster_is_refused_for_now() -> None:
    net = Net("fjord", "mesa")
    station = net["fjord"]
    number, _ = station.replica.open_session("fjord", dialled=False, now=0.0)
    hello = m.Hello(0, "set", "fjord", "another", "writer", 1, "uid-fjord", "x", 1 << 20)
    station.perform(station.replica.receive(number, encode(hello), 0.0, 0))
    assert station.closed[0].reason == "peer_is_self_or_duplicate"


@pytest.mark.parametrize("first", ["fjord", "mesa"])
def test_of_two_links_the_one_dialled_by_the_smaller_stays(first: str) -> None:
    second = "mesa" if first == "fjord" else "fjord"
    net = Net("fjord", "mesa")
    net.connect(first, second)
    net.connect(second, first)
    net.settle()
    assert len(net.wires) == 1
    (station, number), _ = net.wires[0].ends
    assert station.cluster == "fjord"
    assert station.replica.sessions[number].dialled
    net["mesa"].state(local(CART, "10.40.1.4"))
    net.pass_time(3.0)
    assert net["fjord"].sees("mesa") == ["10.40.1.4"]


def test_of_two_links_dialled_by_one_side_the_newer_stays() -> None:
    net = Net("fjord", "mesa")
    net.connect("fjord", "mesa")
    net.settle()
    net.connect("fjord", "mesa")
    net.settle()
    assert len(net.wires) == 1


def test_remote_origins_are_not_relayed_before_the_view_is_current() -> None:
    net = Net("fjord", "mesa", "tundra")
    net["mesa"].replica.relaying = False
    net.connect("fjord", "mesa")
    net.connect("mesa", "tundra")
    net["fjord"].state(local(CART, "10.20.1.4"))
    net["mesa"].publish()
    net.pass_time(3.0)
    assert net["mesa"].sees("fjord") == ["10.20.1.4"]
    assert net["tundra"].sees("fjord") == []
    acknowledged = net["fjord"].replica.acknowledged
    assert acknowledged["mesa"].version == net["fjord"].replica.own.elements.version
    net["mesa"].perform(net["mesa"].replica.start_relaying())
    net.pass_time(3.0)
    assert net["tundra"].sees("fjord") == ["10.20.1.4"]


def test_too_many_origins_cost_the_connection() -> None:
    net = Net("fjord", "mesa")
    net.mesh()
    net.settle()
    adverts = tuple(
        m.Advert(Origin(f"c{number}"), Version(1, 1), 0, bytes(8)) for number in range(10_001)
    )
    for at in range(0, 10_001, 1000):
        net.wires[0].under_way[0].append(encode(m.Heads(adverts[at : at + 1000])))
    net.settle()
    assert net["mesa"].closed[0].reason == "too_large"


def test_a_new_key_signs_the_present_head_anew() -> None:
    net = Net("fjord", "mesa")
    assert net["fjord"].replica.reissue_now(5) == []
    net.mesh()
    net["fjord"].state(local(CART, "10.20.1.4"))
    net.settle()
    head = net["fjord"].replica.own.head
    net.now += 1.0
    net["fjord"].perform(net["fjord"].replica.reissue_now(net.wall_ns("fjord")))
    net.settle()
    seen = net["mesa"].replica.remotes[Origin("fjord")].head
    assert head is not None
    assert seen is not None
    assert seen.issued_at > head.issued_at
    assert seen.same_state(head)


def test_a_cursor_starts_over_where_the_peer_cannot_continue() -> None:
    net = Net("fjord")
    own = net["fjord"].replica.own
    net["fjord"].state(local(CART, "10.20.1.4", "10.20.1.5"))
    first = own.head
    net["fjord"].state(local(CART, "10.20.1.5"))
    assert first is not None
    behind = Cursor(first.version)
    assert own.head is not None
    behind.aim(own.head)
    assert not behind.snapshot
    own.move_floor(own.elements.version.stamp, net.wall_ns("fjord"))
    net["fjord"].publish()
    behind.aim(own.head)
    assert behind.snapshot
    assert behind.position == 0
    asked = Cursor(own.head.version, snapshot=True)
    assert asked.has_work(own.head)
    asked.aim(own.head)
    asked.sent(own.head.stamp, own.head)
    assert not asked.has_work(own.head)
