"""Frames of a later minor version, and the signatures of the simulator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdt import Head, Origin
from replicator import messages as m
from replicator.codec import decode, encode
from replicator.errors import ProtocolError
from replicator.simulation.frames import newer_frames
from replicator.simulation.signers import KeyedSigner, KeyedVerifier

R1 = Origin("r1")


def test_a_later_version_says_the_same_and_something_more() -> None:
    stop = m.Stop(R1)
    (frame,) = newer_frames(encode(stop))
    assert frame != encode(stop)
    assert decode(frame) == stop


def test_a_beat_is_followed_by_a_message_unknown_here() -> None:
    beat = m.Beat(1, 2, 3, bytes(8))
    frames = [decode(frame) for frame in newer_frames(encode(beat))]
    assert frames == [beat, m.Unknown(99)]


def signed(signer: KeyedSigner) -> tuple[Head, m.Record]:
    head = Head(R1, 1, None, 5, 0, 0, bytes(32), 6, 6, signer.key_id)
    record = m.Record(R1, signer.key_id, signer.chain)
    return head.signed(signer.sign(head.canonical())), record


def test_a_head_verifies_by_its_own_record() -> None:
    KeyedVerifier().verify(*signed(KeyedSigner("r1")))


def test_any_other_head_is_refused() -> None:
    head, record = signed(KeyedSigner("r1"))
    wrong = {
        "bad_signature": (replace(head, stamp=6), record),
        "unknown_key": (replace(head, key_id=b"x"), record),
        "identity_mismatch": signed(KeyedSigner("r2")),
    }
    for code, pair in wrong.items():
        with pytest.raises(ProtocolError) as caught:
            KeyedVerifier().verify(*pair)
        assert caught.value.code == code
