"""Opening and closing the listening side of a small aiohttp server, on TCP or on a socket file.

A socket file has mode 0600 from the first moment anybody could connect: it is bound, restricted,
and only then listened on.  A file left behind by a dead process is replaced; one that somebody
answers on never is.  Errors are :class:`~replicator.errors.ConfigError`, since the address is a
setting.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

from aiohttp import web

from replicator.errors import ConfigError
from replicator.ops.address import Address, TcpAddress, UnixAddress

_PROBE_SECONDS = 1.0
_BACKLOG = 128


def _unusable(address: Address, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot listen on {address}: {error.strerror or error}",
        cure="choose another address, or stop the process that holds it",
        code="cannot_listen",
    )


def _answered(path: str) -> bool:
    """Whether a process accepts connections on the socket file ``path``."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:  # Full backlog, no permission: somebody is there.
            return True
    return True


def _make_room(address: UnixAddress) -> None:
    """Remove what a dead process left at the address; refuse to remove anything else."""
    try:
        mode = os.lstat(address.path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigError(
            f"{address.path} exists and is not a socket",
            cure="move that file away or choose another path",
            code="cannot_listen",
        )
    if _answered(address.path):
        raise ConfigError(
            f"another process answers on {address}",
            cure="stop it, or give this agent its own path",
            code="cannot_listen",
        )
    Path(address.path).unlink(missing_ok=True)


def _unix_socket(address: UnixAddress) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        _make_room(address)
        listener.bind(address.path)
        Path(address.path).chmod(0o600)
    except OSError as error:
        listener.close()
        raise _unusable(address, error) from error
    except ConfigError:
        listener.close()
        raise
    return listener


class Site:
    """One application served on one address; started once, stopped once."""

    def __init__(self, app: web.Application, address: Address, *, grace: float) -> None:
        """Serve ``app`` on ``address``; on stop wait up to ``grace`` seconds for open requests."""
        self._address = address
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=grace
        )
        self._socket_file: tuple[int, int] | None = None
        self._bound: Address = address

    @property
    def address(self) -> Address:
        """Where it listens; after :meth:`start` with the port the system chose for port 0."""
        return self._bound

    async def start(self) -> None:
        """Listen; raises :class:`~replicator.errors.ConfigError` when the address is not usable."""
        await self._runner.setup()
        try:
            await self._listen()
        except BaseException:
            await self._runner.cleanup()
            raise

    async def _listen(self) -> None:
        if isinstance(self._address, UnixAddress):
            listener = _unix_socket(self._address)
            await web.SockSite(self._runner, listener, backlog=_BACKLOG).start()
            found = os.stat(self._address.path)  # noqa: PTH116 - beside lstat above, one call
            self._socket_file = (found.st_dev, found.st_ino)
            return
        host, port = self._address.host, self._address.port
        try:
            await web.TCPSite(self._runner, host, port, backlog=_BACKLOG).start()
        except OSError as error:
            raise _unusable(self._address, error) from error
        self._bound = TcpAddress(host, int(self._runner.addresses[0][1]))

    async def stop(self) -> None:
        """Stop listening, end open requests, and remove the socket file if it is still ours."""
        await self._runner.cleanup()
        if isinstance(self._address, UnixAddress):
            self._remove_socket_file(self._address.path)

    def _remove_socket_file(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            found = os.lstat(path)
            if (found.st_dev, found.st_ino) == self._socket_file:
                Path(path).unlink()
