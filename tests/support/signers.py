"""Signatures for tests of what stands on signatures: keyed hashes, a hundred times as fast."""

from __future__ import annotations

from hashlib import blake2b

from crdt import Head
from replicator import messages as m
from replicator.errors import ProtocolError


class FakeSigner:
    """A keyed hash instead of a signature: who knows the cluster's name can forge, as tests may."""

    def __init__(self, cluster: str, key: str = "1") -> None:
        self._secret = f"{cluster}/{key}".encode()

    @property
    def chain(self) -> tuple[bytes, ...]:
        return (self._secret,)

    @property
    def key_id(self) -> bytes:
        return blake2b(self._secret, digest_size=16).digest()

    def sign(self, data: bytes) -> bytes:
        return blake2b(data, key=self._secret, digest_size=32).digest()


class FakeVerifier:
    """The judge of :class:`FakeSigner`; ``untrusted`` are clusters whose chain leads nowhere."""

    def __init__(self) -> None:
        self.untrusted: set[str] = set()
        self.verified = 0

    def verify(self, head: Head, record: m.Record) -> None:
        self.verified += 1
        cluster, _, key = record.chain[0].decode().partition("/")
        signer = FakeSigner(cluster, key)
        if head.origin.cluster in self.untrusted:
            raise ProtocolError("no trusted root", code="untrusted_chain")
        if record.key_id != head.key_id or record.origin != head.origin:
            raise ProtocolError("another key", code="unknown_key")
        if cluster != head.origin.cluster:
            raise ProtocolError("another cluster", code="identity_mismatch")
        if head.signature != signer.sign(head.canonical()):
            raise ProtocolError("no such signature", code="bad_signature")
