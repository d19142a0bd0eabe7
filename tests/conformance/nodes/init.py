"""Process 1 of a node: hides the machine's folders from it, starts its parts, reaps, ends.

``python init.py SPEC.json``, in new mount, pid, ipc, uts and network namespaces.  The spec is what
``files.py`` wrote.  When this process ends, the kernel ends the whole node with its pods.  A part
that ends by itself is started again.  Standard library alone.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

AGAIN_SECONDS = 0.5
OVERLAID = ("/run", "/var/lib", "/var/log")
"""Folders of the machine that a node must not share; the spec's files lie elsewhere."""


def main() -> None:
    """Prepare, start, and keep going until SIGTERM."""
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    socket.sethostname(spec["name"])
    prepare(spec)
    Parts(spec).run()


def prepare(spec: dict[str, Any]) -> None:
    """Give the node folders of its own, and answers of its own about the kernel's settings."""
    for folder in OVERLAID:
        mount("-t", "tmpfs", "tmpfs", folder)
    for inside, outside in spec["binds"].items():
        Path(outside).mkdir(parents=True, exist_ok=True)
        Path(inside).mkdir(parents=True, exist_ok=True)
        mount("--bind", outside, inside)
    # The kubelet sets these for the whole machine unless it reads that they are so already.
    for name, value in spec["settings"].items():
        stand_in = Path("/run") / name.replace("/", ".")
        stand_in.write_text(f"{value}\n", encoding="utf-8")
        mount("--bind", str(stand_in), f"/proc/sys/{name}")
    mount("--make-rshared", "/")


def mount(*words: str) -> None:
    """Mount, or end with the command's own words."""
    subprocess.run(["/bin/mount", *words], check=True)


class Parts:
    """The running parts of the node."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._due: dict[str, float] = dict.fromkeys(spec["parts"], 0.0)
        self._running: dict[int, str] = {}

    def run(self) -> None:
        """Start what is due and reap what ended, for ever."""
        while True:
            now = time.monotonic()
            for name in [name for name, due in self._due.items() if now >= due]:
                del self._due[name]
                self._running[self._start(name)] = name
            self._reap()
            time.sleep(0.1)

    def _start(self, name: str) -> int:
        path = f"{self._spec['path']}:{os.environ['PATH']}"
        with Path(self._spec["logs"], f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                self._spec["parts"][name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PATH": path},
            )
        process.returncode = 0  # it is reaped here, like all that is left behind by others
        return process.pid

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            name = self._running.pop(pid, None)
            if name is not None and name not in self._spec["once"]:
                self._due[name] = time.monotonic() + AGAIN_SECONDS


if __name__ == "__main__":
    main()
