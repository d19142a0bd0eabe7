"""``python -m replicator``: the same as the command ``replicator``."""

from __future__ import annotations

import sys

from replicator.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
