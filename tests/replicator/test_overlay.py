"""Whom to keep dialled: everybody up to 32 clusters, some near and far ones beyond; one whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator import messages as m
from replicator.freshness import Exchange
from replicator.overlay import FAR, MESH_CLUSTERS, NEAR, Overlay, chosen
from replicator.session import Session

MOST = NEAR + FAR + 2
"""Links one cluster dials when all answer: near, far, the next on the ring, and one to measure."""


def names(number: int) -> list[str]:
    return [f"c{at}" for at in range(number)]


def others(me: str, everybody: Iterable[str]) -> list[str]:
    return [name for name in everybody if name != me]


def reached(start: str, links: Mapping[str, Iterable[str]]) -> set[str]:
    """All that links, whoever dialled them, lead to."""
    both: dict[str, set[str]] = {name: set() for name in links}
    for dialler, dialled in links.items():
        for name in dialled:
            both[dialler].add(name)
            both[name].add(dialler)
    found, todo = {start}, [start]
    while todo:
        fresh = both[todo.pop()] - found
        found |= fresh
        todo += fresh
    return found


@pytest.mark.parametrize("number", [1, 2, 5, MESH_CLUSTERS])
def test_a_small_clusterset_is_a_full_mesh(number: int) -> None:
    everybody = names(number)
    rtts = dict.fromkeys(everybody[::2], 5)
    assert chosen("c0", others("c0", everybody), rtts) == {*everybody[1:]}


@given(
    number=st.integers(MESH_CLUSTERS + 1, 70),
    seed=st.integers(0, 2**32),
    known=st.floats(0, 1),
)
@settings(max_examples=40, deadline=None)
def test_beyond_it_few_links_connect_everybody_whatever_the_round_trips(
    number: int, seed: int, known: float
) -> None:
    dice, everybody = Random(seed), names(number)
    links = {}
    for me in everybody:
        rest = others(me, everybody)
        rtts = {name: dice.randrange(10**9) for name in rest if dice.random() < known}
        links[me] = chosen(me, rest, rtts)
        assert links[me] <= {*rest}
        assert len(links[me]) <= MOST
        nearest = sorted(rtts, key=lambda name: (rtts[name], name))[:NEAR]
        assert {*nearest} <= links[me]
    assert reached("c0", links) == {*everybody}


def test_everybody_dials_the_next_on_the_ring_and_two_that_a_hash_picks() -> None:
    """Whatever is near: these are what connects those who are far from one another."""
    everybody = names(60)

    def place(*told: str) -> bytes:
        return blake2b("/".join(told).encode(), digest_size=16).digest()

    ring = sorted(everybody, key=place)
    for at, me in enumerate(ring):
        rest = others(me, everybody)
        rtts = {name: number + 1 for number, name in enumerate(rest)}
        far = sorted(rest, key=lambda name: place(me, name))[:FAR]
        assert chosen(me, rest, rtts) == {ring[(at + 1) % len(ring)], *far, *rest[:NEAR]}


def test_islands_of_near_clusters_are_joined_by_the_far_ones_even_when_some_are_gone() -> None:
    everybody = names(200)
    island = {name: at // 20 for at, name in enumerate(everybody)}
    gone = {name for at, name in enumerate(everybody) if at % 7 == 3}
    links = {}
    for me in everybody:
        rest = others(me, everybody)
        rtts = {name: 1 + 1000 * (island[me] != island[name]) for name in rest}
        links[me] = chosen(me, rest, rtts, lost=gone)
    up = {name: links[name] - gone for name in everybody if name not in gone}
    assert reached("c0", up) == up.keys()


def test_those_that_do_not_answer_are_dialled_still_and_others_beside_them() -> None:
    rest = names(60)
    rtts = {name: at + 1 for at, name in enumerate(rest)}
    lost = rest[:NEAR]
    found = chosen("me", rest, rtts, lost=lost)
    assert {*rest[: 2 * NEAR]} <= found
    assert chosen("me", rest, rtts, lost=rest) == chosen("me", rest, rtts)


def test_the_choice_does_not_depend_on_the_order_of_names() -> None:
    rest = names(60)
    rtts = dict.fromkeys(rest[:20], 7)
    assert chosen("me", rest, rtts) == chosen("me", rest[::-1], rtts)


def test_a_neighbour_gives_way_only_to_one_that_is_clearly_nearer() -> None:
    rest = names(60)
    rtts = {name: 1 << at for at, name in enumerate(rest)}
    present, rival = rest[NEAR - 1], rest[NEAR]
    before = chosen("me", rest, rtts)
    assert rival not in before
    little_slower = rtts | {present: rtts[rival] * 11 // 10}
    assert chosen("me", rest, little_slower, kept=before) == before
    much_slower = rtts | {present: rtts[rival] * 2}
    assert chosen("me", rest, much_slower, kept=before) == before - {present} | {rival}


def linked(number: int, cluster: str, rtt_ns: int, *, dialled: bool = True) -> Session:
    """A session with a peer that has said hello, measured unless ``rtt_ns`` is 0."""
    session = Session(number, cluster, dialled=dialled, now=0.0)
    session.peer = m.Hello(0, "set", cluster, cluster, "writer", 1, "", "", 0)
    if rtt_ns:
        session.clock.add(Exchange(rtt_ns, 0))
    return session


def test_in_time_everybody_is_measured_and_the_nearest_stay() -> None:
    rest = names(60)
    rtts = {name: 1000 + at for at, name in enumerate(rest)}
    overlay = Overlay("me", rest)
    links: dict[str, Session] = {}
    numbers = iter(range(1, 10_000))
    for _ in range(60):
        for name in sorted(overlay.chosen - links.keys()):
            links[name] = linked(next(numbers), name, rtts[name])
        dropped = overlay.review(rest, links.values(), ())
        links = {n: s for n, s in links.items() if s.number not in dropped}
    assert overlay.chosen == links.keys()
    assert {*rest[:NEAR]} <= overlay.chosen
    assert len(overlay.chosen) <= MOST - 1


def test_links_that_others_dialled_or_that_nobody_configured_are_kept() -> None:
    rest = names(60)
    near = [linked(at + 1, name, 10 + at) for at, name in enumerate(rest[:30])]
    unneeded = Overlay("me", rest).review(rest, near, ())
    assert unneeded
    theirs = [linked(at + 1, name, 10 + at, dialled=False) for at, name in enumerate(rest[:30])]
    assert Overlay("me", rest).review(rest, theirs, ()) == []
    strangers = [linked(at + 1, f"x{at}", 10 + at) for at in range(30)]
    assert Overlay("me", rest).review(rest, strangers, ()) == []


def test_a_link_is_not_judged_before_it_is_measured_or_its_hello_has_come() -> None:
    rest = names(60)
    unmeasured = [linked(at + 1, name, 0) for at, name in enumerate(rest)]
    assert Overlay("me", rest).review(rest, unmeasured, ()) == []
    silent = [linked(at + 1, name, 9) for at, name in enumerate(rest)]
    for session in silent:
        session.peer = None
    overlay = Overlay("me", rest)
    before = overlay.chosen
    assert overlay.review(rest, silent, ()) == []
    assert overlay.chosen == before
