"""Who may talk to us, and which of two links stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replicator import messages as m
from replicator.errors import ProtocolError
from replicator.handshake import Self, check_hello, surplus, twins_of
from replicator.session import Session

ME = Self("set", "fjord", "f-1", "uid-fjord", "test")
UIDS = {"fjord": "uid-fjord", "mesa": "uid-mesa"}


def hello(**changes: str) -> m.Hello:
    """What mesa says of itself."""
    fields = {"clusterset": "set", "cluster": "mesa", "instance": "m-1", "uid": "uid-mesa"}
    words = {"role": "writer", **fields, **changes}
    return m.Hello(minor=0, epoch=1, software="test", frame_limit=1 << 20, **words)


def session(number: int = 1, cluster: str = "mesa", *, dialled: bool = True) -> Session:
    """A link to a cluster."""
    return Session(number, cluster, dialled=dialled, now=0.0)


@pytest.mark.parametrize("role", ["writer", "standby"])
def test_a_hello_that_fits_its_link_is_taken(role: str) -> None:
    check_hello(ME, session(), hello(role=role), UIDS)
    check_hello(ME, session(cluster="tundra"), hello(cluster="tundra", uid="any"), UIDS)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"role": "king"}, "bad_frame"),
        ({"clusterset": "staging"}, "clusterset_mismatch"),
        ({"cluster": "tundra"}, "identity_mismatch"),
        ({"instance": "f-1"}, "peer_is_self_or_duplicate"),
        ({"uid": "uid-other"}, "cluster_id_conflict"),
    ],
)
def test_a_hello_that_does_not_fit_is_refused(changes: dict[str, str], code: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        check_hello(ME, session(), hello(**changes), UIDS)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("uid", "code"),
    [("uid-fjord", "peer_is_self_or_duplicate"), ("uid-other", "cluster_id_conflict")],
)
def test_c41_a_peer_with_our_own_id_is_refused(uid: str, code: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        check_hello(ME, session(cluster="fjord"), hello(cluster="fjord", uid=uid), UIDS)
    assert caught.value.code == code


@pytest.mark.parametrize(("ours", "theirs"), [(0, 0), (0, 1), (3, 2), (3, 4)])
def test_one_minor_version_apart_is_near_enough(ours: int, theirs: int) -> None:
    check_hello(replace(ME, minor=ours), session(), replace(hello(), minor=theirs), UIDS)


@pytest.mark.parametrize(
    ("ours", "theirs", "cure"),
    [
        (0, 2, "upgrade fjord to a release that speaks 1.1"),
        (5, 2, "upgrade mesa to a release that"),
    ],
)
def test_further_apart_is_refused_with_both_versions_and_the_cure(
    ours: int, theirs: int, cure: str
) -> None:
    with pytest.raises(ProtocolError) as caught:
        check_hello(replace(ME, minor=ours), session(), replace(hello(), minor=theirs), UIDS)
    assert caught.value.code == "protocol_version"
    assert f"mesa (test) speaks protocol 1.{theirs}" in caught.value.message
    assert f"fjord (test) 1.{ours}" in caught.value.message
    assert cure in caught.value.message


def test_a_second_hello_is_refused() -> None:
    link = session()
    link.peer = hello()
    with pytest.raises(ProtocolError, match="second"):
        check_hello(ME, link, hello(), UIDS)


def test_a_twin_is_an_open_link_to_the_same_instance() -> None:
    link, fresh, other, twin = session(1), session(2), session(3), session(4)
    everybody = [link, fresh, other, twin]
    assert twins_of(link, everybody) == []
    link.peer, other.peer, twin.peer = hello(), hello(instance="m-2"), hello()
    assert twins_of(link, everybody) == [twin]
    assert twins_of(link, [link, fresh, other]) == []
    twin.close()
    assert twins_of(link, everybody) == []


@pytest.mark.parametrize("we_dialled", [True, False])
@pytest.mark.parametrize("other", ["a", "z"])
def test_both_sides_keep_the_link_that_the_smaller_dialled(other: str, *, we_dialled: bool) -> None:
    there = Self("set", other, "i", "uid", "test")
    for me, peer in ((ME, there), (there, ME)):
        says = hello(cluster=peer.cluster, instance=peer.instance)
        first, second = session(1, dialled=we_dialled), session(2, dialled=not we_dialled)
        first.peer = second.peer = says
        kept = {1: second, 2: first}[surplus(me, second, first).number]
        assert kept.dialled is (me.cluster < peer.cluster)
        assert surplus(me, first, second) is not kept
        we_dialled = not we_dialled
