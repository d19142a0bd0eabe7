"""Kubeconfigs for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

SERVER = "https://192.0.2.1:6443"


def kubeconfig(
    user: dict[str, Any] | None = None, *, server: str = SERVER, **cluster: object
) -> dict[str, Any]:
    """A kubeconfig with one context."""
    context = {"cluster": "c", **({} if user is None else {"user": "u"})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": context}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [] if user is None else [{"name": "u", "user": user}],
    }


def write(path: Path, config: dict[str, Any]) -> str:
    """Write it and return the path as text."""
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return str(path)
