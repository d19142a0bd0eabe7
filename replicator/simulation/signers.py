"""Signatures of the simulator: keyed hashes, a hundred times as fast as real ones.

They stand in for :mod:`replicator.signing` behind the same two protocols.  Who knows a cluster's
name can forge, so nothing that a simulation finds or does not find speaks of real signatures.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from crdt import Head
from replicator.errors import ProtocolError
from replicator.messages import Record


class KeyedSigner:
    """:class:`~replicator.signing.Signer` of one cluster."""

    __slots__ = ("_chain", "_key_id", "_secret")

    def __init__(self, cluster: str) -> None:
        """Sign for ``cluster``."""
        self._secret = cluster.encode()[:64]
        self._chain = (cluster.encode(),)
        self._key_id = blake2b(self._secret, digest_size=16).digest()

    @property
    def chain(self) -> tuple[bytes, ...]:
        """What stands for certificates: the cluster's name."""
        return self._chain

    @property
    def key_id(self) -> bytes:
        """See :class:`~replicator.signing.Signer`."""
        return self._key_id

    def sign(self, data: bytes) -> bytes:
        """See :class:`~replicator.signing.Signer`."""
        return blake2b(data, key=self._secret, digest_size=32).digest()


@lru_cache(maxsize=256)
def _signature(head: Head) -> bytes:
    """What the origin of ``head`` would have signed; many receive the same head."""
    return KeyedSigner(head.origin.cluster).sign(head.canonical())


class KeyedVerifier:
    """:class:`~replicator.signing.Verifier` for what :class:`KeyedSigner` signs."""

    __slots__ = ()

    def verify(self, head: Head, record: Record) -> None:
        """See :class:`~replicator.signing.Verifier`; codes as there."""
        cluster = head.origin.cluster
        if record.key_id != head.key_id or record.origin != head.origin:
            detail = f"a head of {cluster} names another key than its record"
            raise ProtocolError(detail, code="unknown_key")
        if record.chain[0] != cluster.encode():
            detail = f"a head of {cluster} is signed by another cluster"
            raise ProtocolError(detail, code="identity_mismatch")
        if head.signature != _signature(head):
            detail = f"the signature of a head of {cluster} does not verify"
            raise ProtocolError(detail, code="bad_signature")
