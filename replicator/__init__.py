"""Keeps the endpoints of many clusters the same everywhere, without a centre."""

from __future__ import annotations

from replicator.version import __version__

__all__ = ["__version__"]
