"""The version of this software; the wire protocol has its own (see ``replicator.messages``)."""

from __future__ import annotations

__version__ = "0.1.0"
