"""Peers that lie, break the protocol or flood: what it costs them, and that it costs us nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdt import Origin, Version, pack
from replicator import messages as m
from replicator.codec import FRAME_LIMIT, encode
from replicator.effects import Close, Effect
from replicator.remote_origin import RemoteOrigin
from replicator.replica import ORIGIN_LIMIT
from tests.support.protocol import messages
from tests.support.puppets import Author, Puppet
from tests.support.replicas import World, live

FJORD, MESA, TUNDRA = Origin("fjord"), Origin("mesa"), Origin("tundra")
ZERO = Version(0, 0)


def scene() -> tuple[World, Puppet, Author]:
    """fjord, with a puppet of mesa as its peer that has served mesa's first state."""
    world = World("fjord")
    world["fjord"].publish("10.20.1.4")
    puppet, author = Puppet(world["fjord"], "mesa"), Author(world, "mesa")
    puppet.hello()
    author.publish("10.40.1.4")
    puppet.serve(author)
    assert world["fjord"].sees("mesa") == ["10.40.1.4"]
    puppet.heard()
    world["fjord"].notices.clear()
    return world, puppet, author


def closed(effects: list[Effect]) -> list[tuple[int, str]]:
    """Code and reason of each close asked for."""
    return [(effect.code, effect.reason) for effect in effects if isinstance(effect, Close)]


# ---- broken frames ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"", "bad_version"),
        (b"\x01\xc1", "bad_frame"),
        (b"\x01\x91\xd6\xff\x00\x00\x00\x01", "ext_not_allowed"),
        (b"\x01" + b"\xc0" * FRAME_LIMIT, "too_large"),
        (b"\x01" + b"\x91" * 2000, "bad_frame"),
    ],
)
def test_garbage_closes_that_session_and_changes_nothing(frame: bytes, code: str) -> None:
    world, puppet, author = scene()
    bystander = Puppet(world["fjord"], "tundra")
    bystander.hello()
    digest = world["fjord"].replica.announcements.digest()
    assert closed(puppet.raw(frame)) == [(1008, code)]
    assert [x.code for x in puppet.heard() if isinstance(x, m.Reject)] == [code]
    assert world["fjord"].events() == ["peer_rejected"]
    assert world["fjord"].replica.announcements.digest() == digest
    # Nothing more is heard from it, good or bad, while its link is being closed.
    author.publish("10.66.6.6")
    assert puppet.say(author.transfer()) == []
    assert puppet.raw(b"\x01\xc1") == []
    assert world["fjord"].sees("mesa") == ["10.40.1.4"]
    assert puppet.heard() == []
    assert not world["fjord"].replica.sessions[bystander.number].closing


def test_a_session_that_is_being_closed_is_nobodys_source() -> None:
    world, puppet, author = scene()
    relay = Puppet(world["fjord"], "tundra")
    relay.hello()
    author.publish("10.40.1.5")
    relay.say(m.Heads((author.advert,)))
    relay.heard()
    puppet.raw(b"")
    assert [type(x) for x in relay.heard()] == [m.Want]
    relay.say(author.record, author.transfer())
    assert world["fjord"].sees("mesa") == ["10.40.1.5"]


def test_a_rejection_ends_the_session_and_is_told() -> None:
    world, puppet, _ = scene()
    assert closed(puppet.say(m.Reject("some_code", "why"))) == [(1000, "some_code")]
    (notice,) = world["fjord"].notices
    assert notice.event == "rejected_by_peer"
    assert notice.fields == {"peer": "mesa", "code": "some_code", "detail": "why"}


@pytest.mark.parametrize(
    "message",
    [
        m.Heads(()),
        m.Want(FJORD, ZERO),
        m.Stop(FJORD),
        m.Beat(1, 0, 0, b""),
        m.Record(FJORD, b"k", (b"c",)),
        m.Unknown(99),
    ],
    ids=lambda message: type(message).__name__,
)
def test_nothing_is_heard_before_the_hello(message: m.Message) -> None:
    world = World("fjord")
    world["fjord"].publish()
    puppet = Puppet(world["fjord"], "mesa")
    assert closed(puppet.say(message)) == [(1008, "hello_expected")]


def test_messages_of_a_newer_version_are_counted_and_ignored() -> None:
    world, puppet, _ = scene()
    before = world["fjord"].replica.ignored
    assert puppet.say(m.Unknown(99)) == []
    assert world["fjord"].replica.ignored == before + 1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"clusterset": "staging"}, "clusterset_mismatch"),
        ({"cluster": "tundra"}, "identity_mismatch"),
        ({"uid": "uid-other"}, "cluster_id_conflict"),
        ({"instance": "fjord-1"}, "peer_is_self_or_duplicate"),
        ({"role": "king"}, "bad_frame"),
    ],
)
def test_c41_c51_c57_a_hello_that_does_not_fit_exchanges_nothing(
    fields: dict[str, object], code: str
) -> None:
    world, puppet, _ = scene()
    other = Puppet(world["fjord"], "mesa")
    other.heard()
    assert closed(other.hello(**fields)) == [(1008, code)]
    assert [type(x) for x in other.heard()] == [m.Reject]
    assert world["fjord"].sees("mesa") == ["10.40.1.4"]
    assert world["fjord"].facts == {"uid/mesa": b"uid-mesa"}
    assert not world["fjord"].replica.sessions[puppet.number].closing


# ---- forged, mixed and stolen -------------------------------------------------------------------


def test_c57_an_entry_under_another_clusters_key_is_refused() -> None:
    world, puppet, author = scene()
    stolen = Author(world, "fjord")
    stolen.publish("10.20.1.4")
    author.publish("10.40.1.5")
    real = author.transfer()
    element = next(iter(stolen.own.elements.live()))[0]
    for op, value in ((1, b"\xc0"), (0, b"\xc0")):
        world, puppet, author = scene()
        author.publish("10.40.1.5")
        real = author.transfer()
        entries = (*real.entries, (element, real.to, op, value))
        assert closed(puppet.say(replace(real, entries=entries))) == [(1008, "not_owner")]
        assert world["fjord"].sees("mesa") == ["10.40.1.4"]
        assert world["fjord"].sees("fjord") == ["10.20.1.4"]


def test_what_breaks_the_schema_refuses_the_whole_transfer() -> None:
    world, puppet, author = scene()
    author.publish("10.40.1.5")
    real = author.transfer()
    bad = (pack([1, "mesa", "shop"]), real.to, 0, pack([]))
    transfer = replace(real, entries=(*real.entries, bad))
    assert closed(puppet.say(transfer)) == [(1008, "bad_entry")]
    assert world["fjord"].sees("mesa") == ["10.40.1.4"]


def test_an_origin_whose_own_head_does_not_verify_loses_its_link() -> None:
    world, puppet, author = scene()
    author.publish("10.40.1.5")
    forged = replace(author.transfer(), head=author.head.signed(b"x" * 32))
    assert closed(puppet.say(forged)) == [(1008, "bad_signature")]
    assert world["fjord"].sees("mesa") == ["10.40.1.4"]


def relayed(*relays: str) -> tuple[World, list[Puppet], Author]:
    """The node takes tundra's origin from relays; the first one is asked."""
    world = World("fjord")
    world["fjord"].publish("10.20.1.4")
    puppets, author = [Puppet(world["fjord"], name) for name in relays], Author(world, "tundra")
    author.publish("10.60.1.4")
    for puppet in puppets:
        puppet.hello()
        puppet.heard()
        puppet.say(m.Heads((author.advert,)))
    return world, puppets, author


def wants(puppet: Puppet) -> list[m.Want]:
    """What a puppet is asked for."""
    return [x for x in puppet.heard() if isinstance(x, m.Want)]


FORGED: dict[str, Callable[[Author], m.Transfer]] = {
    "a signature": lambda a: replace(a.transfer(), head=a.head.signed(b"x" * 32)),
    "a count": lambda a: replace(a.transfer(), head=replace(a.head, count=9)),
    "another time": lambda a: replace(a.transfer(), head=replace(a.head, issued_at=9)),
}


@pytest.mark.parametrize("name", FORGED)
def test_c57_a_relay_that_forges_a_head_is_left_for_another_and_keeps_its_link(name: str) -> None:
    world, (liar, honest), author = relayed("mesa", "steppe")
    assert wants(liar) == [m.Want(TUNDRA, ZERO)]
    effects = liar.say(author.record, FORGED[name](author))
    assert closed(effects) == []
    assert world["fjord"].events() == ["head_refused"]
    assert world["fjord"].version("tundra") == ZERO
    assert [type(x) for x in liar.heard()] == [m.Stop]
    assert wants(honest) == [m.Want(TUNDRA, ZERO)]
    honest.say(author.record, author.transfer())
    assert world["fjord"].sees("tundra") == ["10.60.1.4"]


def test_a_head_of_a_retired_authority_does_not_cost_an_honest_relay_its_link() -> None:
    # A cut-off origin's last head may hang on a root that newcomers no longer trust.
    world, (relay,), author = relayed("mesa")
    world["fjord"].verifier.untrusted.add("tundra")
    spent = []
    for _ in range(8):
        relay.say(author.record, author.transfer())
        began = world.now
        while not wants(relay):
            world.run(0.1)
            relay.say(m.Beat(1, 0, 0, b""))
        spent.append(round(world.now - began))
    assert spent == [0, 1, 2, 4, 8, 16, 32, 32]
    assert not world["fjord"].replica.sessions[relay.number].closing
    assert world["fjord"].version("tundra") == ZERO


def test_entries_of_two_origins_cannot_be_mixed() -> None:
    world, (relay, other), author = relayed("mesa", "steppe")
    real = author.transfer()
    mixed = replace(real, entries=real.entries[:-1])
    relay.heard()
    relay.say(author.record, mixed)
    assert world["fjord"].events() == ["mismatch"]
    # First the same source may mend it with a snapshot, then another is taken.
    assert wants(relay) == [m.Want(TUNDRA, ZERO, snapshot=True)]
    relay.say(mixed)
    assert wants(other) == [m.Want(TUNDRA, ZERO, snapshot=True)]
    other.say(author.record, real)
    assert world["fjord"].sees("tundra") == ["10.60.1.4"]
    assert world["fjord"].replica.mismatches == 2


def test_a_source_that_never_adds_up_is_asked_ever_more_rarely() -> None:
    world, puppet, author = scene()
    author.publish("10.40.1.5")
    bad = replace(author.transfer(), entries=author.transfer().entries[:-1])
    asked = 0
    for _ in range(600):
        puppet.say(bad, m.Beat(1, 0, 0, b""))
        asked += len(wants(puppet))
        world.run(0.1)
    assert 3 <= asked <= 9
    assert world["fjord"].sees("mesa") == ["10.40.1.4"]
    world.run(60.0)
    puppet.say(author.transfer())
    world["fjord"].replica.sessions.clear()


def test_a_relay_that_replays_an_old_head_rolls_nothing_back_and_is_left() -> None:
    world, (liar, honest), author = relayed("mesa", "steppe")
    old = author.transfer()
    liar.say(author.record, old)
    author.publish("10.60.1.5")
    world.run(30.0)
    for puppet in (liar, honest):
        puppet.gone()
    liar, honest = (Puppet(world["fjord"], name) for name in ("mesa", "steppe"))
    for puppet in (liar, honest):
        puppet.hello()
        puppet.say(m.Heads((author.advert,)))
    assert len(wants(liar)) == 1
    for _ in range(30):
        # Junk that arrives in time is no progress.
        liar.say(old, m.Beat(1, 0, 0, b""))
        honest.say(m.Beat(1, 0, 0, b""))
        world.run(0.1)
    assert world["fjord"].sees("tundra") == ["10.60.1.4"]
    assert len(wants(honest)) == 1
    honest.say(author.record, author.transfer())
    assert world["fjord"].sees("tundra") == ["10.60.1.5"]


def test_chunks_beyond_a_gap_are_no_progress_either() -> None:
    world, (liar, honest), author = relayed("mesa", "steppe")
    stamp = author.head.stamp
    gap = m.Transfer(TUNDRA, epoch=1, snapshot=True, start=stamp, to=stamp, entries=(), head=None)
    for _ in range(25):
        liar.say(gap, m.Beat(1, 0, 0, b""))
        honest.say(m.Beat(1, 0, 0, b""))
        world.run(0.1)
    assert len(wants(honest)) == 1


def test_a_writer_of_a_former_epoch_is_refused_and_left_for_the_present_one() -> None:
    world, zombie, old = scene()
    old.publish("10.66.6.6")
    present = Author(world, "mesa", epoch=5)
    present.publish("10.40.1.5")
    relay = Puppet(world["fjord"], "tundra")
    relay.hello()
    relay.heard()
    relay.say(m.Heads((present.advert,)))
    for _ in range(40):
        zombie.say(m.Beat(1, 0, 0, b""))
        relay.say(m.Beat(1, 0, 0, b""))
        world.run(0.1)
    assert len(wants(relay)) == 1
    relay.say(present.record, present.transfer())
    assert world["fjord"].sees("mesa") == ["10.40.1.5"]
    world.run(5.0)
    zombie.say(old.transfer())
    assert world["fjord"].sees("mesa") == ["10.40.1.5"]


def test_who_asks_again_is_given_the_record_again() -> None:
    # It may have come while nothing was wanted, and been forgotten.
    world = World("fjord")
    world["fjord"].publish("10.20.1.4")
    puppet = Puppet(world["fjord"], "mesa")
    puppet.hello()
    for _ in range(2):
        puppet.say(m.Want(FJORD, ZERO))
        assert [x for x in puppet.heard() if isinstance(x, m.Record)] != []
        puppet.say(m.Stop(FJORD))


# ---- floods -------------------------------------------------------------------------------------


def adverts(count: int, first: int = 0) -> list[m.Heads]:
    """Origins that nobody ever heard of, a thousand to a message."""
    rows = [m.Advert(Origin(f"c{n}"), Version(1, 1), 0, b"") for n in range(first, first + count)]
    return [m.Heads(tuple(rows[at : at + 1000])) for at in range(0, count, 1000)]


def test_origins_that_one_peer_names_are_bounded() -> None:
    _, puppet, _ = scene()
    effects = puppet.say(*adverts(ORIGIN_LIMIT + 1))
    assert closed(effects) == [(1008, "too_large")]


def test_invented_origins_are_bounded_over_all_peers_and_go_with_who_named_them() -> None:
    world, puppet, _ = scene()
    replica = world["fjord"].replica
    puppet.say(*adverts(ORIGIN_LIMIT - 10))
    other = Puppet(world["fjord"], "tundra")
    other.hello()
    other.say(*adverts(30, first=ORIGIN_LIMIT - 15))
    assert len(replica.remotes) == ORIGIN_LIMIT
    assert not replica.sessions[other.number].closing
    puppet.gone()
    assert len(replica.remotes) < 60
    assert world["fjord"].sees("mesa") == ["10.40.1.4"]


def test_wants_are_bounded_and_cost_no_work_while_there_is_nothing_to_send() -> None:
    world, puppet, _ = scene()
    for number in range(ORIGIN_LIMIT):
        puppet.say(m.Want(Origin(f"c{number}"), ZERO))
    puppet.heard()
    session = world["fjord"].replica.sessions[puppet.number]
    assert session.ready == {}
    assert closed(puppet.say(m.Want(Origin("more"), ZERO))) == [(1008, "too_large")]


def test_records_of_origins_that_were_not_asked_for_are_not_kept() -> None:
    world, puppet, _ = scene()
    for number in range(100):
        puppet.say(m.Record(Origin(f"c{number}"), b"key", (b"x" * 16_000,)))
    session = world["fjord"].replica.sessions[puppet.number]
    assert set(session.records) == {MESA}


def test_a_peer_that_makes_us_talk_and_does_not_listen_is_given_up() -> None:
    world, puppet, _ = scene()
    gap = m.Transfer(MESA, epoch=9, snapshot=True, start=5, to=5, entries=(), head=None)
    for _ in range(10_100):
        puppet.say(gap)
    effects = world["fjord"].replica.tick(world.now, world["fjord"].wall_ns)
    assert closed(effects) == [(1000, "does not read")]


def test_transfers_nobody_asked_for_are_ignored() -> None:
    world, puppet, _ = scene()
    author = Author(world, "tundra")
    author.publish("10.60.1.4")
    before = world["fjord"].replica.ignored
    assert puppet.say(author.transfer()) == []
    assert world["fjord"].replica.ignored == before + 1
    assert Origin("tundra") not in world["fjord"].replica.remotes


def test_a_second_agent_of_our_own_cluster_is_refused() -> None:
    world, _, _ = scene()
    sibling = Puppet(world["fjord"], "fjord")
    assert closed(sibling.hello(instance="another")) == [(1008, "peer_is_self_or_duplicate")]
    assert closed(sibling.hello(instance="another")) == []


def test_adverts_of_other_shards_of_our_own_cluster_are_not_ours_to_take() -> None:
    world, puppet, _ = scene()
    puppet.say(m.Heads((m.Advert(Origin("fjord", 3), Version(1, 1), 0, b""),)))
    assert Origin("fjord", 3) not in world["fjord"].replica.remotes


def test_many_origins_are_announced_in_several_messages_the_peers_own_first() -> None:
    world, _, _ = scene()
    node = world["fjord"]
    for number in range(1500):
        author = Author(world, f"c{number}")
        author.publish("10.60.1.4")
        remote = RemoteOrigin(author.own.origin)
        assert remote.restore(author.own.elements, author.head, author.record)
        node.replica.remotes[remote.origin] = remote
        node.views[remote.origin] = live(remote.elements)
    late = Puppet(node, "c777")
    late.hello()
    told = [x for x in late.heard() if isinstance(x, m.Heads)]
    assert [len(x.adverts) for x in told] == [1000, 502]
    assert told[0].adverts[0].origin == Origin("c777")
    assert all(len(encode(x)) < FRAME_LIMIT for x in told)


class Liar:
    """A peer that owns two clusters' keys, makes states, and says anything in any order."""

    def __init__(self) -> None:
        self.world, self.puppet, self.author = scene()
        self.second = Author(self.world, "tundra")
        self.second.publish("10.60.1.4")
        self.kept: list[m.Message] = []

    def step(self, roll: int, drawn: m.Message, part: int) -> None:
        """One message, honest, stale, cut or invented."""
        author = self.author if roll % 2 else self.second
        if roll < 4:
            author.publish(f"10.40.1.{part}")
        elif roll < 6:
            author.own.open_epoch(author.own.epoch)
            author.publish(f"10.40.1.{part}")
        real = author.transfer(snapshot=roll % 3 != 0)
        cut = max(1, min(part, len(real.entries)))
        entries = real.entries[:cut]
        chunk = replace(real, entries=entries, to=max(e[1] for e in entries), head=None)
        says: list[m.Message] = [
            m.Heads((author.advert,)),
            author.record,
            real,
            chunk,
            replace(real, start=min(e[1] for e in real.entries) - 1),
            drawn,
            m.Want(FJORD, author.head.version, snapshot=bool(part % 2)),
        ]
        self.kept += says[:4]
        self.puppet.say(says[roll % len(says)], self.kept[part % len(self.kept)])
        self.puppet.heard()
        self.world.run(0.1 * part)
        if self.world["fjord"].replica.sessions[self.puppet.number].closing:
            self.puppet.gone()
            self.puppet = Puppet(self.world["fjord"], "mesa")
            self.puppet.hello()


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 30), messages, st.integers(0, 9)), max_size=25))
def test_whatever_a_peer_says_in_whatever_order_every_view_is_one_that_was_signed(
    script: list[tuple[int, m.Message, int]],
) -> None:
    # Every message is followed by the world's check: no partial, mixed or older state, and no
    # error but the typed one ever leaves the replica.
    liar = Liar()
    for roll, drawn, part in script:
        liar.step(roll, drawn, part)
    assert liar.world["fjord"].sees("fjord") == ["10.20.1.4"]
    honest = Puppet(liar.world["fjord"], "steppe")
    honest.hello()
    author = Author(liar.world, "steppe")
    author.publish("10.50.1.4")
    honest.serve(author)
    assert liar.world["fjord"].sees("steppe") == ["10.50.1.4"]
