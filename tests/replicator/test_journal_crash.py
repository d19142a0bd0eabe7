"""Kill -9 at random instants: what was acknowledged is there, and nothing is there in part."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from replicator.journal import Journal

_WRITER = """
import asyncio, sys
from pathlib import Path
from replicator.journal import Journal, OwnBatch, RemoteCommit

SIZE = 20

def entries(number):
    return tuple((b"%d/%d" % (number, n), number, 0, b"v" * 50) for n in range(SIZE))

async def main():
    journal = await Journal.open(Path(sys.argv[1]))
    own, _ = await journal.load()
    number = 0 if own is None else own.last_stamp
    print("start", flush=True)
    while True:
        number += 1
        await journal.persist_remote([
            RemoteCommit("mesa", 0, b"%d" % number, b"r", entries(number), 0, False)
        ])
        await journal.persist_own(
            OwnBatch(1, number + 5, number, b"%d" % number, entries(number), 0)
        )
        print(number, flush=True)

asyncio.run(main())
"""


def _writer(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WRITER, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def _check(folder: Path, acknowledged: int) -> int:
    journal = await Journal.open(folder)
    own, remotes = await journal.load()
    await journal.close()
    number = 0 if own is None else own.last_stamp
    assert number in {acknowledged, acknowledged + 1}
    if own is not None:
        assert own.head == b"%d" % number
        assert sorted({entry[1] for entry in own.entries}) == list(range(1, number + 1))
        assert len(own.entries) == 20 * number
    for state in remotes:
        reached = int(state.head)
        assert reached in {number, number + 1}
        assert {entry[1] for entry in state.entries} >= {reached}
        assert len(state.entries) % 20 == 0
    return number


async def test_a_kill_at_any_instant_loses_nothing_acknowledged_and_leaves_no_part(
    tmp_path: Path,
) -> None:
    dice = random.Random(3)
    reached = 0
    for _ in range(8):
        with _writer(tmp_path) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "start\n"
            for _ in range(dice.randrange(12)):
                reached = int(writer.stdout.readline())
            # The writer is somewhere in its next batch; where, the scheduler decides.
            for _ in range(dice.randrange(2000)):
                pass
            writer.kill()
            rest = writer.stdout.read().split()
        if rest:
            reached = int(rest[-1])
        reached = await _check(tmp_path, reached)
    assert reached > 20
