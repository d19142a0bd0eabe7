"""Become another program that the kernel kills when the test run that started it dies.

``python guard.py PARENT_PID COMMAND...`` asks for SIGKILL on the parent's death and then executes
COMMAND in its own place: same pid, so whoever started this can end the program by that pid.

The request is made here and not in a ``preexec_fn``, because forking Python code out of a process
with threads is unsafe (and warned about by Python 3.12).  Linux only; elsewhere the command is
executed without that safety.  The kernel watches the *thread* that started us: start from the main
thread.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask for the signal, check that the parent did not die in between, execute."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            raise SystemExit("the test run ended before its program started")
    os.execvp(command[0], command)  # noqa: S606  No shell is wanted.


if __name__ == "__main__":
    main()
