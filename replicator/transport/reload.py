"""Credentials that follow their files without a restart.

The files are watched and, since watches can be lost, compared by content every ten seconds.  New
contents go live only after they were loaded, judged and tried in a handshake of their own; until
then (half a rotation, a truncated copy) the old ones serve on.  Links that exist keep what they
were made with; every later handshake, in both directions, uses the new ones.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog
import watchfiles

from clusters.base import Clock
from replicator.config import Tls
from replicator.errors import PkiError
from replicator.identity import PeerIdentity
from replicator.transport.contexts import client_context, prove, server_context
from replicator.transport.identity_files import Contents, Credentials, load, read

POLL_SECONDS = 10.0
_DEBOUNCE_MS = 50
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class TlsState:
    """Credentials and the contexts made of them."""

    credentials: Credentials
    server: ssl.SSLContext
    client: ssl.SSLContext


def build(files: Tls, contents: Contents, identity: PeerIdentity, now: datetime) -> TlsState:
    """A tried state, made in scratch; :class:`PkiError` if the contents are not fit to serve."""
    credentials = load(files, contents, identity, now)
    server, client = server_context(credentials), client_context(credentials)
    prove(server, client)
    return TlsState(credentials, server, client)


class LiveTls:
    """The TLS state of one agent; :meth:`run` keeps it up to date."""

    def __init__(
        self,
        files: Tls,
        identity: PeerIdentity,
        now: Callable[[], datetime],
        on_change: Callable[[Credentials], None] | None = None,
    ) -> None:
        """Load ``files`` for ``identity``; :class:`PkiError` unless they are good at once.

        ``now`` tells the (aware) time; ``on_change`` is called after each switch.
        """
        self._files = files
        self._identity = identity
        self._now = now
        self._on_change = on_change
        self._contents = read(files)
        self._state = build(files, self._contents, identity, now())
        self._failed: tuple[Contents | None, str] | None = None
        self.reloads = 0
        """How often new contents went live."""
        self.reload_errors = 0
        """Contents that were refused (``tls_reload_errors_total``); each version counts once."""
        self.watching: bool | None = None
        """Whether the files' folders are watched; None before the first attempt."""
        self.last_error: PkiError | None = None
        """Why the files are not what serves at present."""

    @property
    def state(self) -> TlsState:
        """What new handshakes use."""
        return self._state

    @property
    def credentials(self) -> Credentials:
        """The credentials of :attr:`state`."""
        return self._state.credentials

    @property
    def identity(self) -> PeerIdentity:
        """Whom we are."""
        return self._identity

    def on_change(self, call: Callable[[Credentials], None]) -> None:
        """Have ``call`` called after each switch."""
        self._on_change = call

    def check(self) -> bool:
        """Compare the files with what serves, and switch if they changed for the better.

        Returns whether it switched; takes some ten milliseconds if so.  Never raises for what the
        files hold: see :attr:`last_error`.
        """
        contents: Contents | None = None
        try:
            contents = read(self._files)
            if contents == self._contents:
                self._failed, self.last_error = None, None
                return False
            state = build(self._files, contents, self._identity, self._now())
        except PkiError as error:
            self._refused(contents, error)
            return False
        self._contents, self._state = contents, state
        self._failed, self.last_error = None, None
        self.reloads += 1
        _log.info("tls_reloaded", expires_at=state.credentials.expires_at.isoformat())
        if self._on_change is not None:
            self._on_change(state.credentials)
        return True

    def _refused(self, contents: Contents | None, error: PkiError) -> None:
        self.last_error = error
        if self._failed == (contents, error.message):
            return
        self._failed = (contents, error.message)
        self.reload_errors += 1
        _log.warning("tls_reload_failed", code=error.code, why=str(error))

    async def run(self, clock: Clock) -> None:
        """Follow the files until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._poll(clock))
            group.create_task(self._watch(clock))

    async def _poll(self, clock: Clock) -> None:
        while True:
            await clock.sleep(POLL_SECONDS)
            self.check()

    async def _watch(self, clock: Clock) -> None:
        """Look at once when something moves beside the files; polling does without this."""
        warned = False
        while True:
            try:
                await self._follow()
            except (OSError, RuntimeError) as error:
                if not warned:
                    _log.warning("tls_files_not_watched", why=str(error))
                warned = True
            self.watching = False
            await clock.sleep(POLL_SECONDS)

    async def _follow(self) -> None:
        names = (self._files.certificate, self._files.key, self._files.trust_bundle)
        folders = {path.parent for path in names}
        self.watching = True
        async for _ in watchfiles.awatch(
            *folders, debounce=_DEBOUNCE_MS, step=_DEBOUNCE_MS, recursive=False
        ):
            self.check()
