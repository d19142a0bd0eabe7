"""Hypothesis profiles: the same examples on every run in CI, fresh ones at a desk."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("crdt-ci", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("crdt-desk", deadline=None, max_examples=60, print_blob=True)
settings.load_profile("crdt-ci" if os.environ.get("CI") else "crdt-desk")
