"""Large commits are told in slices, one origin after the other."""

from __future__ import annotations

from crdt import Origin
from replicator.effects import Changed
from replicator.remote_origin import SLICE, Outcome, RemoteOrigin
from replicator.telling import Telling
from tests.support.puppets import Author
from tests.support.replicas import CART, World
from tests.support.signers import FakeVerifier

Remotes = dict[Origin, RemoteOrigin]


class Large:
    """An origin of many endpoints, as a replica takes it."""

    def __init__(self, cluster: str, remotes: Remotes, telling: Telling) -> None:
        self.author = Author(World(), cluster)
        self.remote = remotes[Origin(cluster)] = RemoteOrigin(Origin(cluster))
        self.telling = telling

    def take(self, *addresses: str) -> int:
        """Commit a snapshot of these; returns how many changes were told at once."""
        self.author.publish(*addresses)
        taken = self.remote.take(self.author.transfer(), FakeVerifier(), self.author.record)
        assert taken.outcome is Outcome.COMMITTED
        self.telling.committed(self.remote)
        return len(taken.changes)


def addresses(count: int) -> list[str]:
    """So many."""
    return [f"10.20.{at >> 8}.{at & 255}" for at in range(count)]


def test_large_commits_are_told_to_the_end_in_slices() -> None:
    remotes: Remotes = {}
    telling = Telling(remotes)
    assert (telling.has_more, telling.more()) == (False, [])
    first, second = Large("mesa", remotes, telling), Large("fjord", remotes, telling)
    assert first.take(*addresses(SLICE + 50)) == SLICE
    assert second.take(*addresses(2 * SLICE + 50)) == SLICE
    told = []
    while telling.has_more:
        (effect,) = telling.more()
        assert isinstance(effect, Changed)
        assert (effect.services, effect.seconds) == ({CART}, None)
        told.append((effect.origin.cluster, len(effect.changes)))
    assert told == [("mesa", 51), ("fjord", SLICE), ("fjord", 51)]
    assert (first.remote.changes, second.remote.changes) == (51, SLICE + 51)


def test_a_slice_in_which_nothing_changed_has_no_effects() -> None:
    remotes: Remotes = {}
    telling = Telling(remotes)
    large = Large("mesa", remotes, telling)
    large.take(*addresses(3 * SLICE))
    while telling.has_more:
        telling.more()
    assert large.take(*addresses(3 * SLICE), "10.99.0.1") == 0
    told = []
    while telling.has_more:
        told.append(len(telling.more()))
    assert told == [0, 0, 1]


def test_a_small_commit_leaves_nothing_to_tell() -> None:
    remotes: Remotes = {}
    telling = Telling(remotes)
    assert Large("mesa", remotes, telling).take("10.20.1.4") == 2
    assert not telling.has_more


def test_nothing_is_told_of_an_origin_that_was_forgotten() -> None:
    remotes: Remotes = {}
    telling = Telling(remotes)
    Large("mesa", remotes, telling).take(*addresses(2 * SLICE))
    assert telling.has_more
    remotes.clear()
    assert telling.more() == []
    assert not telling.has_more
