"""A pytest plugin for runs against a copy: it is the copy that is tested, and failures end soon."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import Phase, settings

import crdt
import replicator


def pytest_configure() -> None:
    """End the run unless the packages come from the copy; do not shrink what fails."""
    folder = Path(os.environ["MUTANTS_FOLDER"]).resolve()
    for package in (crdt, replicator):
        assert Path(package.__file__ or "").resolve().is_relative_to(folder), package.__file__
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", settings.get_profile("ci"), phases=phases, database=None)
    settings.load_profile("mutants")
