"""The way to the API server, kept current while files and tokens change under us (W14, W15).

At most every 60 s, and at once after a 401, everything is read anew: the kubeconfig and the
certificates if their content changed, the token file always, the plugin's credential if it is about
to expire or was refused.  While that fails the last good route stays in use, unless it was refused.

TLS to the API server does not ask for strict X.509, on any Python: cluster CAs predate it.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from clusters.base import Clock
from clusters.errors import ClusterError
from clusters.kubernetes.credentials import (
    CredentialsError,
    PluginCredential,
    read_token,
    run_plugin,
)
from clusters.kubernetes.kubeconfig import (
    Access,
    ExecPlugin,
    KubeconfigError,
    read_kubeconfig,
    read_service_account,
)
from clusters.kubernetes.material import load_authority, load_pair
from clusters.kubernetes.proxy import proxy_for
from clusters.kubernetes.route import Route

REFRESH_SECONDS = 60.0
_EXPIRY_NS = 60_000_000_000
_log = structlog.get_logger()

ReadAccess = Callable[[], Awaitable[Access]]


class ApiConnection:
    """Implements :class:`~clusters.kubernetes.client.Connection`."""

    def __init__(self, read: ReadAccess, *, clock: Clock, environ: Mapping[str, str]) -> None:
        """``read`` reads the configuration; it is called again when its files changed."""
        self._read = read
        self._clock = clock
        self._environ = environ
        self._lock = asyncio.Lock()
        self._known: tuple[Access, Route] | None = None
        self._digest = b""
        self._credential: PluginCredential | None = None
        self._route: Route | None = None
        self._fresh_until = 0.0

    @classmethod
    def from_kubeconfig(
        cls,
        path: str | None,
        context: str | None,
        *,
        clock: Clock,
        environ: Mapping[str, str],
        service_account: Path | None = None,
    ) -> ApiConnection:
        """Read the kubeconfig at ``path``; None = the pod's service account, in its usual place."""

        async def read() -> Access:
            if path is None:
                return read_service_account(environ, service_account)
            return await read_kubeconfig(path, context)

        return cls(read, clock=clock, environ=environ)

    async def check(self) -> None:
        """Read the configuration once; raises :class:`KubeconfigError` when it is unusable."""
        async with self._lock:
            await self._read_if_changed()

    async def route(self) -> Route:
        """See :class:`~clusters.kubernetes.client.Connection`."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._route is not None and now < self._fresh_until:
                return self._route
            try:
                self._route = await self._current()
            except ClusterError as error:
                if self._route is None:
                    raise
                _log.warning("api_credentials_kept", code=error.code, detail=str(error))
            self._fresh_until = now + REFRESH_SECONDS
            return self._route

    async def renew(self, refused: Route) -> Route:
        """See :class:`~clusters.kubernetes.client.Connection`."""
        async with self._lock:
            if self._route is None or self._route is refused:
                self._route = self._credential = None
                self._route = await self._current()
                self._fresh_until = self._clock.monotonic() + REFRESH_SECONDS
            return self._route

    def _expires(self, credential: PluginCredential) -> bool:
        moment = credential.expires_ns
        return moment is not None and moment - _EXPIRY_NS <= self._clock.wall_ns()

    async def _current(self) -> Route:
        access, base = await self._read_if_changed()
        if access.plugin is not None:
            return await self._with_plugin(base, access, access.plugin)
        if access.token_file is not None:
            return _with_token(base, read_token(access.token_file))
        return base

    async def _read_if_changed(self) -> tuple[Access, Route]:
        """Everything but moving credentials; built anew when a file it came from changed."""
        known = self._known
        if known is None or known[0].volatile or _digest(known[0]) != self._digest:
            access = await self._read()
            known = access, self._build(access)
            self._known = known
            self._digest = _digest(access)
            self._credential = None
        return known

    def _build(self, access: Access) -> Route:
        proxy = proxy_for(access.server, access.proxy_url, self._environ)
        if proxy is not None and not proxy.startswith(("http://", "https://")):
            cure = "use an http:// or https:// proxy, or exempt the server with NO_PROXY"
            raise KubeconfigError("the proxy's scheme is not supported", cure=cure)
        headers = {} if access.authorization is None else {"Authorization": access.authorization}
        route = Route(
            access.server,
            headers=headers,
            tls=_context(access) if access.server.startswith("https") else None,
            server_name=access.server_name,
            proxy=proxy,
        )
        _log.info(
            "api_server_route",
            route=route.where,
            proxied=proxy is not None,
            verified=access.verify,
            strict_x509=False,
        )
        return route

    async def _with_plugin(self, base: Route, access: Access, plugin: ExecPlugin) -> Route:
        credential = self._credential
        if credential is None or self._expires(credential):
            credential = await run_plugin(plugin, access, self._clock, self._environ)
            self._credential = credential
        route = base if credential.token is None else _with_token(base, credential.token)
        if credential.certificate is not None and base.tls is not None:
            route = replace(route, tls=_context(access, credential))
        return route


def _with_token(route: Route, token: str) -> Route:
    return replace(route, headers={"Authorization": f"Bearer {token}"})


def _digest(access: Access) -> bytes:
    """Digest of the files an access came from; a file that is missing for a moment counts too."""
    digest = hashlib.sha256()
    for path in (*access.files, access.authority, access.certificate, access.key):
        if isinstance(path, Path):
            try:
                content = path.read_bytes()
            except OSError:
                content = b"\0"
            digest.update(hashlib.sha256(content).digest())
    return digest.digest()


def _context(access: Access, credential: PluginCredential | None = None) -> ssl.SSLContext:
    """TLS as the kubeconfig wants it; raises `KubeconfigError` or `CredentialsError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    try:
        if not access.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif access.authority is None:
            context.load_default_certs()
        else:
            load_authority(context, access.authority)
        if access.certificate is not None:
            load_pair(context, access.certificate, access.key)
    except (OSError, ValueError) as error:
        cure = "check the certificates that the kubeconfig names"
        raise KubeconfigError(
            f"certificates: {type(error).__name__}: {error}", cure=cure
        ) from error
    if credential is not None and credential.certificate and credential.key:
        _load_credential(context, credential.certificate, credential.key)
    return context


def _load_credential(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        load_pair(context, certificate.encode(), key.encode())
    except (OSError, ValueError) as error:
        cure = "run the plugin named in the kubeconfig by hand as the agent's user"
        raise CredentialsError(
            f"credential plugin: certificate: {type(error).__name__}",
            cure=cure,
            code="api_credential_plugin_failed",
        ) from error
