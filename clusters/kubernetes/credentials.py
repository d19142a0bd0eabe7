"""Credentials that change while we run: token files and credential plugins (kubernetes.md W14).

A token file is opened anew each time, since pods get it through a symlink that is swapped.  A
plugin runs when its credential is about to expire or was refused.  Nothing a plugin prints on its
output is ever logged; of its error output at most 200 bytes, without tokens.

Source: client authentication plugins (``client.authentication.k8s.io``).
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from clusters.base import Clock
from clusters.errors import ClusterUnavailableError
from clusters.kubernetes.deadline import Deadline
from clusters.kubernetes.kubeconfig import Access, ExecPlugin
from clusters.kubernetes.material import content
from clusters.kubernetes.route import hide_tokens

_PLUGIN_SECONDS = 60.0
_STDERR_BYTES = 200
_NS = 1_000_000_000


class CredentialsError(ClusterUnavailableError):
    """No credentials can be had at present; tried again with back-off."""

    code = "api_credentials_failed"


@dataclass(frozen=True, slots=True)
class PluginCredential:
    """What a plugin gave; the texts are secrets."""

    token: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    expires_ns: int | None = None
    """Unix time; None = until refused."""


def read_token(path: Path) -> str:
    """Read a bearer token file; raises :class:`CredentialsError`."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        cure = "check that the token file exists and is readable for the agent"
        raise CredentialsError(
            f"token file {path}: {type(error).__name__}", cure=cure, code="api_token_unreadable"
        ) from error
    if not token or any(letter.isspace() for letter in token):
        cure = "the file must hold one bearer token and nothing else"
        raise CredentialsError(
            f"token file {path}: no token", cure=cure, code="api_token_unreadable"
        )
    return token


async def run_plugin(
    plugin: ExecPlugin, access: Access, clock: Clock, environ: Mapping[str, str]
) -> PluginCredential:
    """Run the plugin; raises :class:`CredentialsError` when it fails or says nothing usable."""
    spec: dict[str, Any] = {"interactive": False}
    if plugin.wants_cluster:
        spec["cluster"] = _cluster_info(access)
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    env = {**environ, **plugin.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    code, output, errors = await _run(plugin.command, env, clock)
    if code != 0:
        told = hide_tokens(errors[:_STDERR_BYTES].decode("utf-8", "backslashreplace").strip())
        raise _failed(plugin, f"exit status {code}: {told}")
    try:
        return _credential(json.loads(output)["status"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _failed(
            plugin, f"its output is no ExecCredential ({type(error).__name__})"
        ) from error


async def _run(
    command: tuple[str, ...], env: Mapping[str, str], clock: Clock
) -> tuple[int, bytes, bytes]:
    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=none, stdout=pipe, stderr=pipe, env=dict(env)
        )
    except (OSError, ValueError) as error:
        raise _failed(command, f"cannot be started: {type(error).__name__}") from error
    try:
        async with Deadline(clock, clock.monotonic() + _PLUGIN_SECONDS):
            output, errors = await process.communicate()
    except TimeoutError as error:
        raise _failed(command, f"still running after {_PLUGIN_SECONDS:.0f} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output, errors


def _failed(plugin: ExecPlugin | tuple[str, ...], why: str) -> CredentialsError:
    command = plugin.command if isinstance(plugin, ExecPlugin) else plugin
    return CredentialsError(
        f"credential plugin {os.path.basename(command[0])}: {why}",  # noqa: PTH119 (a word, not a path)
        cure="run the plugin named in the kubeconfig by hand as the agent's user",
        code="api_credential_plugin_failed",
    )


def _credential(status: Mapping[str, Any]) -> PluginCredential:
    token = status.get("token")
    certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    if not token and not (certificate and key):
        raise ValueError("neither a token nor a certificate with its key")
    expires = status.get("expirationTimestamp")
    moment = None if not expires else datetime.fromisoformat(str(expires))
    return PluginCredential(
        token=None if not token else str(token).strip(),
        certificate=None if not certificate else str(certificate),
        key=None if not key else str(key),
        expires_ns=None if moment is None else int(moment.timestamp()) * _NS,
    )


def _cluster_info(access: Access) -> dict[str, Any]:
    info: dict[str, Any] = {"server": access.server}
    if access.authority is not None:
        data = content(access.authority)
        info["certificate-authority-data"] = base64.b64encode(data).decode("ascii")
    if not access.verify:
        info["insecure-skip-tls-verify"] = True
    if access.server_name is not None:
        info["tls-server-name"] = access.server_name
    if access.proxy_url is not None:
        info["proxy-url"] = access.proxy_url
    return info
