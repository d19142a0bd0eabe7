"""Hypothesis profiles: the same examples on every run in CI, fresh ones at a desk; no deadlines."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("clusters-ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("clusters-desk", deadline=None, print_blob=True)
settings.load_profile("clusters-ci" if os.environ.get("CI") else "clusters-desk")
