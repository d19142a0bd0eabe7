"""What a kubeconfig or a pod's service account says, as plain values.

kubernetes-asyncio reads and merges the files and resolves the context.  Taken out before it looks:
inline certificates and keys, which it would write to files that outlive a killed agent, and
credentials that change while we run (token files, plugins), which
:mod:`clusters.kubernetes.credentials` reads again and again.

Everything wrong with the files is a :class:`KubeconfigError` with its cure.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from clusters.errors import ClusterError
from clusters.kubernetes.material import Material
from clusters.kubernetes.route import hide_tokens

_CURE = "check the kubeconfig with `kubectl --kubeconfig FILE config view`"
_FOREIGN = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, OSError, TypeError, ValueError),
    *(aiohttp.ClientError, yaml.YAMLError),
)
_NOBODY = "nobody"
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_POD_CURE = "run in a pod with a service account, or name a kubeconfig in source.kubeconfig"


class KubeconfigError(ClusterError):
    """The kubeconfig (or the pod's service account) cannot be used as it is."""

    code = "bad_kubeconfig"


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A credential plugin as the kubeconfig describes it."""

    command: tuple[str, ...]
    api_version: str
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    wants_cluster: bool = False
    """Whether it is told about the cluster (``provideClusterInfo``)."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where the API server is and how to authenticate."""

    server: str
    authority: Material | None = None
    verify: bool = True
    server_name: str | None = None
    certificate: Material | None = None
    key: Material | None = field(default=None, repr=False)
    proxy_url: str | None = None
    authorization: str | None = field(default=None, repr=False)
    """A fixed Authorization header."""
    token_file: Path | None = None
    plugin: ExecPlugin | None = None
    files: tuple[Path, ...] = ()
    """Files this was read from; a change means it must be read anew."""
    volatile: bool = False
    """It must be read anew each time (a built-in provider that renews its own tokens)."""


class _Holder:
    """Takes what the library's loaders set; its own class would bring global state along."""

    def __init__(self) -> None:
        self.host = ""
        self.ssl_ca_cert: str | None = None
        self.verify_ssl = True
        self.tls_server_name: str | None = None
        self.cert_file: str | None = None
        self.key_file: str | None = None
        self.proxy: str | None = None
        self.api_key: dict[str, str] = {}
        self.refresh_api_key_hook: object = None


async def read_kubeconfig(path: str, context: str | None) -> Access:
    """Read one kubeconfig, or several joined by the path separator; None = its current context."""
    # The library takes two seconds to import, which commands that need no cluster must not pay.
    from kubernetes_asyncio.config import ConfigException, kube_config  # noqa: PLC0415

    library: Any = kube_config
    found = _Holder()
    try:
        merger = library.KubeConfigMerger(path)
        if merger.config is None:
            raise KubeconfigError(f"there is no kubeconfig at {path}", cure=_CURE)
        _give_every_context_a_user(merger.config.value)
        loader = library.KubeConfigLoader(merger.config, context, config_base_path=None)
        user, folder = _user(merger.config.value, loader.current_context)
        token_file, plugin = _take_out_moving_parts(user, folder)
        inline = _take_out_inline(_cluster(merger.config.value, loader.current_context), user)
        await loader.load_and_set(found)
    except (ConfigException, *_FOREIGN) as error:
        raise KubeconfigError(f"kubeconfig {path}: {_told(error)}", cure=_CURE) from error
    if not found.host:
        raise KubeconfigError(f"kubeconfig {path}: the cluster names no server", cure=_CURE)
    return Access(
        found.host,
        **(_tls(found) | inline),
        proxy_url=found.proxy,
        authorization=_stripped(found.api_key.get("BearerToken")),
        token_file=token_file,
        plugin=plugin,
        files=tuple(Path(one) for one in merger.paths),
        volatile="auth-provider" in user,
    )


def read_service_account(environ: Mapping[str, str], folder: Path | None = None) -> Access:
    """Read what a pod is given; ``folder`` (None: where pods have it) holds token and ca.crt."""
    # Without the library, whose import costs two seconds and 70 MiB in every pod.
    host, port = (environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    if not host or not port:
        raise KubeconfigError("no service account: this is no pod", cure=_POD_CURE)
    account = _ACCOUNT if folder is None else folder
    token, authority = account / "token", account / "ca.crt"
    for path in (token, authority):
        try:
            held = path.read_bytes()
        except OSError as error:
            raise KubeconfigError(
                f"no service account: {path}: {error.strerror}", cure=_POD_CURE
            ) from error
        if not held:
            raise KubeconfigError(f"no service account: {path} is empty", cure=_POD_CURE)
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Access(server, authority=authority, token_file=token)


def _give_every_context_a_user(config: dict[str, Any]) -> None:
    """The library fails on a context without one, which is how anonymous access is written."""
    for context in config["contexts"]:
        if not context["context"].value.get("user"):
            context["context"].value["user"] = _NOBODY
    config["users"].append({"name": _NOBODY, "user": {}})


def _cluster(config: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """The cluster section of a context, which may be changed; the library knows that it exists."""
    name = context["context"]["cluster"]
    return next(one["cluster"].value for one in config["clusters"] if one["name"] == name)


def _user(config: dict[str, Any], context: dict[str, Any]) -> tuple[dict[str, Any], Path]:
    """The user section of a context, which may be changed, and the folder its paths start from."""
    for entry in config["users"]:
        if entry["name"] == context["context"]["user"]:
            section = entry["user"]
            if isinstance(section, dict):
                return section, Path()
            return section.value, Path(entry.path).absolute().parent
    raise KubeconfigError(
        f"context names the unknown user {context['context']['user']}", cure=_CURE
    )


def _take_out_moving_parts(
    user: dict[str, Any], folder: Path
) -> tuple[Path | None, ExecPlugin | None]:
    """Remove token file and plugin from the user section and return them."""
    token_file, plugin = user.pop("tokenFile", None), user.pop("exec", None)
    return (
        None if token_file is None else folder / token_file,
        None if plugin is None else _plugin(plugin, folder),
    )


def _take_out_inline(cluster: dict[str, Any], user: dict[str, Any]) -> dict[str, bytes]:
    """Remove what is written inline, with the files it is meant to replace, and return it."""
    found = {}
    for section, key, ours in (
        (cluster, "certificate-authority", "authority"),
        (user, "client-certificate", "certificate"),
        (user, "client-key", "key"),
    ):
        data = section.pop(f"{key}-data", None)
        if data:
            section.pop(key, None)
            found[ours] = base64.b64decode(data)
    return found


def _plugin(section: Mapping[str, Any], folder: Path) -> ExecPlugin:
    command = [section["command"], *(section.get("args") or [])]
    if "/" in command[0]:
        command[0] = str(folder / command[0])
    return ExecPlugin(
        command=tuple(str(word) for word in command),
        api_version=str(section["apiVersion"]),
        env={one["name"]: str(one["value"]) for one in section.get("env") or []},
        wants_cluster=bool(section.get("provideClusterInfo")),
    )


def _tls(found: _Holder) -> dict[str, Any]:
    return {
        "authority": _path(found.ssl_ca_cert),
        "verify": found.verify_ssl,
        "server_name": found.tls_server_name,
        "certificate": _path(found.cert_file),
        "key": _path(found.key_file),
    }


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _stripped(text: str | None) -> str | None:
    return text.strip() if text else None


def _told(error: Exception) -> str:
    """What went wrong, without the configuration that the library quotes (it has tokens)."""
    return hide_tokens(f"{type(error).__name__}: {str(error).partition('{')[0]}"[:300])
