"""Sources that lie about buckets, or say nothing: what it costs them, and that nothing is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdt import Head, Origin, Version
from crdt.buckets import Cover, read_nodes
from replicator import messages as m
from replicator.effects import Close
from replicator.repair import STAGED_BYTES_LIMIT
from replicator.repairs import PATIENCE_SECONDS
from replicator.replica import ORIGIN_LIMIT
from tests.support.puppets import Author, Puppet
from tests.support.replicas import WALL_NS, World

MESA = Origin("mesa")
STATE = tuple(f"10.40.1.{number}" for number in range(150))
HOUR_NS = 3_600_000_000_000


class Scene:
    """A node whose state of mesa has rotted, and the peer it asked for buckets."""

    def __init__(self, source: str = "tundra", state: tuple[str, ...] = STATE) -> None:
        self.world = World("fjord")
        self.node = self.world["fjord"]
        self.node.publish("10.20.1.4")
        self.author = Author(self.world, "mesa")
        self.author.publish(*state)
        self.source = Puppet(self.node, source)
        self.source.hello(buckets=True)
        self.source.serve(self.author)
        self.older = self.told()
        """Buckets of the head before."""
        self.author.publish(*state, "10.40.2.1")
        self.source.say(self.author.transfer())
        self.world.rot("fjord", "mesa")
        self.shown = self.node.sees("mesa")
        self.source.say(m.GetBuckets(MESA, 0))
        self.run(0.6)
        assert self.node.events() == ["audit_failed", "repair_begun"]
        (asked,) = [x for x in self.source.heard() if isinstance(x, m.GetBuckets)]
        assert asked == m.GetBuckets(MESA, 1)
        self.node.notices.clear()

    @property
    def head(self) -> Head:
        return self.author.head

    def run(self, seconds: float) -> None:
        """Let time pass while the source beats."""
        for _ in range(round(seconds * 5)):
            self.world.run(0.2)
            self.source.say(m.Beat(WALL_NS, 0, 0, b""))

    def told(self, depth: int = 1) -> m.Buckets:
        """The true buckets."""
        return m.Buckets(self.head, depth, self.author.own.elements.nodes(depth))

    def asked(self) -> m.GetBucketEntries:
        """Tell the true buckets; what is asked for then."""
        self.source.say(self.author.record, self.told())
        (asked,) = [x for x in self.source.heard() if isinstance(x, m.GetBucketEntries)]
        return asked

    def lent(self, asked: m.GetBucketEntries) -> m.BucketEntries:
        """The true entries."""
        cover = Cover(asked.indexes)
        found = self.author.own.elements.since(0, 1 << 30).entries
        entries = tuple(entry for entry in found if entry[0] in cover)
        return m.BucketEntries(MESA, self.head.epoch, 0, self.head.stamp, entries, last=True)

    def end(self) -> m.Transfer:
        """The head alone, as it follows the buckets."""
        head = self.head
        return m.Transfer(MESA, head.epoch, snapshot=False, start=head.stamp, to=head.stamp,
                          entries=(), head=head)  # fmt: skip

    def is_mended(self) -> bool:
        remote = self.node.remote("mesa")
        elements = self.author.own.elements
        return not remote.rotten and dict(remote.elements.held()) == dict(elements.held())

    def wants(self) -> list[bool]:
        """Whether each Want of mesa that the source heard is for a snapshot."""
        said = self.source.heard()
        return [x.snapshot for x in said if isinstance(x, m.Want) and x.origin == MESA]

    def is_left(self, code: str) -> bool:
        """Whether the source lost the origin for a lie, and nothing was shown of it."""
        (notice,) = self.node.notices
        assert notice.event == "repair_refused"
        assert notice.fields == {"origin": "mesa", "source": "tundra", "code": code}
        assert self.node.sees("mesa") == self.shown
        left = any(isinstance(x, m.Stop) for x in self.source.heard())
        return left and self.node.remote("mesa").rotten

    def mends_elsewhere(self) -> bool:
        """Whether an honest source is found, and what it sends mends."""
        other = Puppet(self.node, "delta")
        other.hello(buckets=True)
        other.say(m.Heads((self.author.advert,)))
        for _ in range(100):
            self.run(0.2)
            for said in other.heard():
                match said:
                    case m.GetBuckets(_, depth):
                        other.say(self.author.record, self.told(depth))
                    case m.GetBucketEntries():
                        other.say(self.lent(said), self.end())
                    case m.Want():
                        other.say(self.author.record, self.author.transfer())
            if self.is_mended():
                return True
        return False


def test_who_tells_the_truth_mends() -> None:
    scene = Scene()
    asked = scene.asked()
    assert (asked.origin, asked.version) == (MESA, scene.head.version)
    assert len(asked.indexes) == 1
    scene.source.say(scene.lent(asked), scene.end())
    assert scene.is_mended()
    assert scene.node.events() == []


def flipped(scene: Scene) -> m.Buckets:
    nodes = bytearray(scene.told().nodes)
    nodes[40] ^= 1
    return replace(scene.told(), nodes=bytes(nodes))


def of_another_state(scene: Scene) -> m.Buckets:
    other = Author(scene.world, "mesa")
    other.publish("10.66.6.6")
    return replace(scene.told(), nodes=other.own.elements.nodes(1))


def forged(scene: Scene) -> m.Buckets:
    other = Author(scene.world, "mesa", key="2")
    other.publish("10.66.6.6")
    head = replace(other.head, key_id=scene.head.key_id)
    return m.Buckets(head, 1, other.own.elements.nodes(1))


LIES: dict[str, tuple[Callable[[Scene], m.Buckets], str]] = {
    "a flipped bit": (flipped, "bad_buckets"),
    "nodes of another state": (of_another_state, "bad_buckets"),
    "another cut": (lambda scene: scene.told(0), "bad_buckets"),
    "no list": (lambda scene: replace(scene.told(), nodes=b"\1"), "bad_buckets"),
    "nothing": (lambda scene: replace(scene.told(), nodes=b""), "bad_buckets"),
    "a forged head": (forged, "bad_signature"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_relay_that_lies_about_buckets_is_left_for_another(lie: str) -> None:
    scene = Scene()
    make, code = LIES[lie]
    scene.source.say(scene.author.record, make(scene))
    assert scene.is_left(code)
    assert not scene.node.replica.sessions[scene.source.number].closing
    assert scene.mends_elsewhere()


@pytest.mark.parametrize("lie", LIES)
def test_an_origin_that_lies_about_its_own_buckets_loses_the_link(lie: str) -> None:
    scene = Scene("mesa")
    make, code = LIES[lie]
    effects = scene.source.say(make(scene))
    assert [x.reason for x in effects if isinstance(x, Close)] == [code]
    assert scene.node.sees("mesa") == scene.shown
    scene.source.gone()
    assert scene.mends_elsewhere()


Lend = Callable[[Scene, m.BucketEntries], m.BucketEntries]


def with_all(scene: Scene, part: m.BucketEntries) -> m.BucketEntries:
    entries = tuple(scene.author.own.elements.since(0, 1 << 30).entries)
    return replace(part, entries=entries)


def of_another_cluster(_: Scene, part: m.BucketEntries) -> m.BucketEntries:
    element, *rest = part.entries[0]
    return replace(part, entries=((element.replace(b"mesa", b"mess"), *rest),))


WRONG: dict[str, tuple[Lend, str]] = {
    "entries of other buckets": (with_all, "bad_buckets"),
    "an entry of another cluster": (of_another_cluster, "not_owner"),
    "another epoch": (lambda _, part: replace(part, epoch=2), "bad_buckets"),
    "a gap": (lambda _, part: replace(part, start=5), "bad_buckets"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_relay_that_sends_what_was_not_asked_for_is_left_for_another(what: str) -> None:
    scene = Scene()
    make, code = WRONG[what]
    scene.source.say(make(scene, scene.lent(scene.asked())))
    assert scene.is_left(code)
    assert scene.mends_elsewhere()


def changed(part: m.BucketEntries, how: str) -> m.BucketEntries:
    """Entries as only their owner may change them."""
    first, *rest = part.entries
    match how:
        case "dropped":
            return replace(part, entries=tuple(rest))
        case "changed":
            return replace(part, entries=((*first[:3], first[3][:1] + b"\1" + first[3][2:]), *rest))
        case _:
            return replace(part, entries=())


@pytest.mark.parametrize("how", ["dropped", "changed", "left out"])
def test_forged_buckets_are_never_committed_and_end_in_a_snapshot_of_another(how: str) -> None:
    scene = Scene()
    scene.source.say(changed(scene.lent(scene.asked()), how), scene.end())
    assert scene.node.events() == ["mismatch"]
    assert scene.node.sees("mesa") == scene.shown
    remote = scene.node.remote("mesa")
    assert (remote.rotten, remote.distrust, remote.repair) == (True, True, None)
    assert scene.mends_elsewhere()


def test_buckets_of_an_older_head_lead_nowhere() -> None:
    """It was signed, and hashes up; but nobody goes back to it."""
    scene = Scene()
    scene.source.say(scene.author.record, scene.older)
    assert scene.wants() == [True]
    assert scene.node.sees("mesa") == scene.shown
    scene.source.say(scene.author.record, scene.author.transfer())
    assert scene.is_mended()


def test_buckets_of_another_state_signed_for_the_same_version_lead_nowhere() -> None:
    scene = Scene()
    former = scene.older.head
    second = replace(scene.head, root=former.root, count=former.count)
    told = replace(scene.older, head=scene.author.signed(second))
    scene.source.say(scene.author.record, told)
    assert scene.wants() == [True]


def test_buckets_of_a_head_from_the_future_are_not_followed() -> None:
    scene = Scene()
    ahead = replace(scene.head, stamp=scene.head.stamp + 2 * HOUR_NS)
    told = replace(scene.told(), head=scene.author.signed(ahead))
    # Two origins more, so that it is this one that is wrong and not our own clock.
    for name in ("delta", "kelp"):
        other, author = Puppet(scene.node, name), Author(scene.world, name)
        other.hello()
        author.publish("10.9.1.1")
        other.serve(author)
    scene.source.say(scene.author.record, told)
    assert scene.wants() == [True]


def test_a_source_that_says_nothing_is_asked_for_a_snapshot() -> None:
    scene = Scene()
    scene.run(PATIENCE_SECONDS - 1.0)
    assert scene.wants() == []
    scene.run(2.0)
    assert scene.wants() == [True]
    scene.source.say(scene.author.record, scene.author.transfer())
    assert scene.is_mended()


def test_a_source_that_cannot_go_on_sends_a_snapshot_in_the_middle() -> None:
    scene = Scene()
    part = scene.lent(scene.asked())
    scene.source.say(replace(part, last=False), scene.author.transfer())
    assert scene.is_mended()


def test_transfers_under_way_when_it_began_are_not_taken() -> None:
    scene = Scene()
    scene.author.publish(*STATE, "10.40.2.2")
    scene.source.say(scene.author.transfer(), scene.author.transfer(1, snapshot=False))
    assert scene.node.remote("mesa").rotten
    assert scene.node.sees("mesa") == scene.shown


def test_a_gap_behind_the_buckets_ends_in_a_snapshot() -> None:
    scene = Scene()
    scene.source.say(scene.lent(scene.asked()))
    former = scene.head.stamp
    scene.author.publish(*STATE, "10.40.2.2")
    scene.source.say(scene.author.transfer(former + 1, snapshot=False))
    assert scene.wants() == [False]
    scene.run(0.4)
    assert scene.wants() == [True]
    scene.source.say(scene.author.transfer())
    assert scene.is_mended()


def test_more_than_any_state_holds_is_refused() -> None:
    scene = Scene()
    part = scene.lent(scene.asked())
    repair = scene.node.remote("mesa").repair
    assert repair is not None
    repair.bytes = STAGED_BYTES_LIMIT
    scene.source.say(part)
    assert scene.is_left("too_large")


def test_nobody_asks_for_the_buckets_of_more_origins_than_there_may_be() -> None:
    world = World("fjord")
    world["fjord"].publish("10.20.1.4")
    puppet = Puppet(world["fjord"], "tundra")
    puppet.hello()
    for number in range(ORIGIN_LIMIT):
        assert puppet.say(m.GetBuckets(Origin(f"c{number}"), 3)) != []
    assert not any(isinstance(x, m.Buckets) for x in puppet.heard())
    effects = puppet.say(m.GetBuckets(Origin("more"), 3))
    assert [x.reason for x in effects if isinstance(x, Close)] == ["too_large"]


def test_buckets_are_told_once_for_each_time_they_can_be() -> None:
    world = World("fjord")
    node = world["fjord"]
    node.publish("10.20.1.4")
    puppet = Puppet(node, "tundra")
    puppet.hello()
    puppet.heard()
    node.say("10.20.1.5")
    node.seal()
    puppet.say(m.GetBuckets(Origin("fjord"), 0), m.GetBuckets(Origin("fjord"), 1))
    assert puppet.heard() == []
    node.store()
    node.send()
    record, told = (x for x in puppet.heard() if isinstance(x, m.Record | m.Buckets))
    assert isinstance(record, m.Record)
    assert isinstance(told, m.Buckets)
    head = node.replica.own.head
    assert head is not None
    assert (told.head, told.depth) == (head, 1)
    assert read_nodes(told.nodes, 1)[0] == head.root
    assert puppet.heard() == []


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_whatever_a_source_answers_nothing_is_shown_that_was_not_signed(
    data: st.DataObject,
) -> None:
    """Every view is checked after every message, by the world."""
    scene = Scene(state=STATE[:80])
    own = scene.author.own.elements
    true = scene.told()
    everything = tuple(own.since(0, 1 << 30).entries)
    stamps = st.sampled_from([0, 1, everything[3][1], everything[-1][1], scene.head.stamp])

    def entries() -> m.BucketEntries:
        start, to = sorted([data.draw(stamps), data.draw(stamps)])
        found = [e for e in everything if start < e[1] <= to and data.draw(st.booleans())]
        last = data.draw(st.booleans())
        return m.BucketEntries(MESA, data.draw(st.integers(1, 2)), start, to, tuple(found), last)

    def transfer() -> m.Transfer:
        snapshot = data.draw(st.booleans())
        return scene.author.transfer(0 if snapshot else data.draw(stamps), snapshot=snapshot)

    makers: list[Callable[[], m.Message]] = [
        lambda: true,
        lambda: replace(true, nodes=data.draw(st.binary(max_size=70))),
        entries,
        transfer,
        scene.end,
        lambda: scene.lent(m.GetBucketEntries(MESA, Version(1, 1), (1,))),
        lambda: scene.author.record,
    ]
    for _ in range(data.draw(st.integers(1, 8))):
        scene.source.say(data.draw(st.sampled_from(makers))())
        if data.draw(st.booleans()):
            scene.run(0.4)
    remote = scene.node.remote("mesa")
    assert remote.version == scene.head.version
    assert remote.rotten or scene.is_mended()
    assert scene.is_mended() or scene.mends_elsewhere()
