"""Loopback ports from the kernel that stay ours while the programs using them come and go.

A port that was merely found free can be taken by any outgoing connection before the program binds
it, or between its stop and its restart.  So each port is held by a bound socket that never listens,
and the programs are told to share it (SO_REUSEPORT): connections reach only the program, and are
refused while it is down.
"""

from __future__ import annotations

import socket


class ReservedPorts:
    """Ports held until ``close``; needs programs that bind with SO_REUSEPORT."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self) -> int:
        """Reserve one more port on 127.0.0.1."""
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        self._held.append(holder)
        port: int = holder.getsockname()[1]
        return port

    def close(self) -> None:
        """Give all ports back."""
        while self._held:
            self._held.pop().close()


def free_ports(count: int) -> list[int]:
    """Ports free just now, all different, for programs that do not share theirs."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
