"""Runs the links: one reader and one writer task a link, one dialling task a configured peer.

Thin: what to say and to whom is the replica's, when to dial again :mod:`replicator.redial`'s.
Dialling never stops; the name is resolved anew each time.  A link that we dialled is renewed in
time: the next one is up before it is closed.  No link outlives its peer's certificate.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import structlog

from clusters.base import Clock
from replicator.config import Peer
from replicator.effects import Effect
from replicator.errors import ProtocolError, RefusedError, ReplicatorError
from replicator.overlay import Overlay
from replicator.recorder import Recorder
from replicator.redial import REDIAL_SECONDS, Redial, renewal_after
from replicator.replica import Replica
from replicator.transport.base import (
    GOING_AWAY,
    NORMAL,
    Dialer,
    Link,
    LinkClosed,
    PeerRefusedError,
)

_REVIEW_SECONDS = 2.0
_log = structlog.get_logger()


@dataclass(slots=True)
class PeerStatus:
    """What is shown of one configured peer."""

    peer: Peer
    state: str = "never_connected"
    connected_once: bool = False
    attempts: int = 0
    error: ReplicatorError | None = None
    renewals: dict[Link, float] = field(default_factory=dict)
    """Open links that we dialled, and when (monotonic) each is to be renewed."""
    rest_until: float = 0.0
    """Not dialled again before."""

    def due(self, now: float) -> bool:
        """Whether the link that we dialled is to be renewed."""
        return bool(self.renewals) and max(self.renewals.values()) <= now


@dataclass(slots=True)
class _Running:
    link: Link
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    closing: tuple[int, str] | None = None


class Links:
    """All links of one agent."""

    def __init__(
        self,
        replica: Replica,
        recorder: Recorder,
        clock: Clock,
        rng: random.Random,
        perform: Callable[[list[Effect]], None],
        others: Collection[str] = (),
    ) -> None:
        """``perform`` carries out the replica's effects; it must not block.

        ``others`` are the clusters that may be dialled: all of them, or some near and some far.
        """
        self._replica = replica
        self._recorder = recorder
        self._clock = clock
        self._rng = rng
        self._perform = perform
        self._running: dict[int, _Running] = {}
        self.peers: dict[str, PeerStatus] = {}
        self._gone = asyncio.Event()
        self.draining = False
        self.overlay = Overlay(replica.me.cluster, others)
        self._rechosen = asyncio.Event()
        self._review_at = 0.0

    def wake(self, number: int) -> None:
        """Session ``number`` has something to send."""
        running = self._running.get(number)
        if running is not None:
            running.wake.set()

    def close(self, number: int, code: int, reason: str) -> None:
        """Send what waits on session ``number``, then close it."""
        running = self._running.get(number)
        if running is not None:
            running.closing = running.closing or (code, reason)
            running.wake.set()

    def link_of(self, number: int) -> Link | None:
        """The link of a session, for its counters."""
        running = self._running.get(number)
        return None if running is None else running.link

    def connected(self, cluster: str) -> bool:
        """Whether a session with ``cluster`` has got its hello."""
        sessions = self._replica.sessions.values()
        return any(s.cluster == cluster and s.peer is not None for s in sessions)

    def review(self, others: Collection[str], *, settled: bool = True) -> None:
        """Every few seconds: choose anew whom to keep dialled, and let go of who is not needed.

        Not before it is ``settled`` that we may publish, nor a writer before its first head, which
        waits for those chosen at the start.  Another agent of our own cluster is always kept.
        """
        now, own = self._clock.monotonic(), self._replica.own
        self._watch(now)
        if now < self._review_at or not settled or (own.leading and own.head is None):
            return
        self._review_at = now + _REVIEW_SECONDS
        former, sessions = self.overlay.chosen, self._replica.sessions.values()
        failed = (name for name, status in self.peers.items() if status.error is not None)
        lost = {name for name in failed if not self.connected(name)}
        for number in self.overlay.review(others, sessions, lost):
            self.close(number, NORMAL, "not needed")
        if self.overlay.chosen != former:
            self._rechosen.set()
            self._rechosen = asyncio.Event()

    def _watch(self, now: float) -> None:
        """End links whose peer's certificate is over; look at those that are to be renewed."""
        wall_ns = self._clock.wall_ns()
        for number, running in self._running.items():
            link = running.link
            if link.peer_expires_ns is not None and wall_ns > link.peer_expires_ns:
                detail = f"the certificate of {link.identity.cluster} has expired; renew it"
                error = ProtocolError(detail, code="certificate_expired")
                self._perform(self._replica.reject(number, error, now))
        if any(status.due(now) for status in self.peers.values()):
            self._look()

    def _look(self) -> None:
        """Have every dialling task look at how its peer is linked."""
        self._gone.set()
        self._gone = asyncio.Event()

    async def serve(self, link: Link) -> None:
        """Run one established link until it ends."""
        await self._serve(link)

    async def _serve(self, link: Link) -> bool:
        """Run one link; returns whether it ended because one of the two rejected the other."""
        cluster = link.identity.cluster
        number, effects = self._replica.open_session(
            cluster, dialled=link.dialled, now=self._clock.monotonic()
        )
        running = self._running[number] = _Running(link)
        running.wake.set()
        reason = "closed"
        try:
            self._perform(effects)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read(number, link))
                group.create_task(self._write(number, running))
        except* LinkClosed as group_error:
            reason = str(group_error.exceptions[0])
        finally:
            await link.close(GOING_AWAY if self.draining else NORMAL, "shutting down")
            del self._running[number]
            rejected = self._replica.sessions[number].rejected
            self._perform(self._replica.close_session(number, self._clock.monotonic()))
            self._look()
        _log.info("link_closed", peer=cluster, reason=reason)
        return rejected

    async def _read(self, number: int, link: Link) -> None:
        while True:
            frame = await link.receive()
            now, wall_ns = self._clock.monotonic(), self._clock.wall_ns()
            self._perform(self._replica.receive(number, frame, now, wall_ns))
            await self._recorder.room()

    async def _write(self, number: int, running: _Running) -> None:
        while True:
            await running.wake.wait()
            running.wake.clear()
            while frames := self._replica.pull(number):
                for frame in frames:
                    await running.link.send(frame)
            if running.closing is not None:
                code, reason = running.closing
                await running.link.close(code, reason)
                raise LinkClosed(code, reason)

    async def keep_dialled(self, peer: Peer, dialer: Dialer) -> None:
        """Keep a link to ``peer``, dialled by either side, for ever, while it is chosen."""
        status = self.peers[peer.cluster] = PeerStatus(peer)
        redial = Redial(self._clock.monotonic())
        async with asyncio.TaskGroup() as group:
            while not self.draining:
                if await self._rested(status, redial):
                    continue
                status.attempts += 1
                if status.connected_once:
                    status.state = "backoff"
                link = await self._dial(status, redial, dialer)
                if link is not None:
                    status.renewals[link] = self._clock.monotonic() + self._life_of(link)
                    group.create_task(self._dialled(status, redial, link))

    async def _rested(self, status: PeerStatus, redial: Redial) -> bool:
        """Wait while the peer need not be dialled; returns whether to look again."""
        cluster, now = status.peer.cluster, self._clock.monotonic()
        connected = self.connected(cluster)
        if (connected or status.renewals) and not status.due(now):
            status.connected_once |= connected
            await self._gone.wait()
            if connected:
                redial.linked(self._clock.monotonic())
        elif now < status.rest_until:
            await self._clock.sleep(status.rest_until - now)
        elif self._replica.members.forgotten(cluster):
            await self._clock.sleep(REDIAL_SECONDS)
        elif cluster not in self.overlay.chosen and cluster != self._replica.me.cluster:
            status.state, status.error = "not_chosen", None
            await self._rechosen.wait()
        else:
            if status.state == "not_chosen":
                status.state = "never_connected"
            return False
        return True

    async def _dial(self, status: PeerStatus, redial: Redial, dialer: Dialer) -> Link | None:
        peer, now = status.peer, self._clock.monotonic()
        try:
            link = await dialer.dial(peer.url, peer.cluster, redial.timeout(now))
        except RefusedError as error:
            self._failed(status, error, "refused")
            asked = error.retry_after if isinstance(error, PeerRefusedError) else None
            self._rest(status, redial.refused(self._rng.random(), asked))
        except ReplicatorError as error:
            self._failed(status, error, None)
            self._rest(status, redial.unanswered(self._rng.random()))
        else:
            status.error = None
            return link
        return None

    def _rest(self, status: PeerStatus, seconds: float) -> None:
        status.rest_until = self._clock.monotonic() + seconds

    def _life_of(self, link: Link) -> float:
        """Seconds after which ``link`` is renewed."""
        ends = [ns for ns in (link.own_expires_ns, link.peer_expires_ns) if ns is not None]
        valid = (min(ends) - self._clock.wall_ns()) * 1e-9 if ends else None
        return renewal_after(valid, self._rng.random())

    async def _dialled(self, status: PeerStatus, redial: Redial, link: Link) -> None:
        """Run a link that we dialled, and say when its peer may be dialled again."""
        began = self._clock.monotonic()
        try:
            rejected = await self._serve(link)
        finally:
            del status.renewals[link]
        share = self._rng.random()
        if rejected:
            self._rest(status, redial.refused(share, None))
        elif self._clock.monotonic() - began < REDIAL_SECONDS:
            # Closed at once: a duplicate of a link the peer dialled.
            self._rest(status, redial.unanswered(share))
        else:
            self._rest(status, redial.lost(share))

    @staticmethod
    def _failed(status: PeerStatus, error: ReplicatorError, state: str | None) -> None:
        if status.error is None or status.error.code != error.code:
            _log.warning("peer_unreachable", peer=status.peer.cluster, why=str(error))
        status.error = error
        if state is not None:
            status.state = state
        elif not status.connected_once:
            status.state = "never_connected"
