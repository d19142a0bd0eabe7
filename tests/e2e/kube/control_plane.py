"""One real Kubernetes control plane on loopback: etcd, API server and controller manager.

There is no kubelet and no kube-proxy: pods are objects whose status a test writes, and the real
controllers make EndpointSlices of them.  Each of the three programs can be stopped, killed and
restarted; ports and data stay.

The API server authorises by RBAC, so a program under test runs with the rights of its own service
account and no more, and writes an audit log in which its calls can be counted.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from .api import Api, ApiError, Object, WaitError
from .audit import AuditLog, Call
from .build import Programs
from .credentials import Credentials, make_credentials, write_kubeconfig
from .ports import ReservedPorts
from .processes import Program

AUDIT_POLICY = Path(__file__).with_name("audit-policy.yaml")
TOKEN_SECONDS = 24 * 3600

# Those that make Services into EndpointSlices and clean up after namespaces and owners; the others
# would only cost memory and time.
CONTROLLERS = (
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
)

COLLECTIONS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
}


class ControlPlane:
    """An asynchronous context manager; entering starts all programs, leaving ends them.

    ``index`` (0-50) keeps the Service addresses of several control planes apart; with ``dual``
    Services may have IPv6 addresses, too; ``more_controllers`` run beside the usual.  All files lie
    in ``folder`` and stay there: ``logs/*.log``, ``audit.log``, ``admin.kubeconfig``.
    """

    def __init__(
        self,
        name: str,
        index: int,
        programs: Programs,
        folder: Path,
        *,
        dual: bool = False,
        more_controllers: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.folder = folder
        self.service_range = f"10.{200 + index}.0.0/16"
        self.controllers = (*CONTROLLERS, *more_controllers)
        if dual:
            self.service_range += f",fd00:{200 + index}::/112"
        self.audit = AuditLog(folder / "audit.log")
        self.built = programs
        self._ports = ReservedPorts()
        self._exits = AsyncExitStack()
        etcd, etcd_peer, server, manager = (self._ports.take() for _ in range(4))
        self.server = f"https://127.0.0.1:{server}"
        self._credentials = make_credentials(folder / "pki", name)
        self.admin_kubeconfig = self._kubeconfig("admin", self._credentials.admin_token)
        self.admin = self._api(self.server, self._credentials.admin_token)
        self._etcd_health = self._api(f"http://127.0.0.1:{etcd}", "")
        self._manager_health = self._api(f"https://127.0.0.1:{manager}", "")
        self.etcd = self._etcd(etcd, etcd_peer)
        self.apiserver = self._apiserver(server, etcd)
        self.controller_manager = self._controller_manager(manager)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.callback(self._ports.close)
            for api in (self.admin, self._etcd_health, self._manager_health):
                await stack.enter_async_context(api)
            for program in self.programs:
                # Ended in the opposite order, and all of them even if one fails to start.  Nothing
                # is worth a graceful end when the data is thrown away.
                stack.push_async_callback(program.kill)
                await program.start()
            self._exits = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._exits.aclose()

    @property
    def programs(self) -> tuple[Program, Program, Program]:
        """The three programs in the order of their start."""
        return self.etcd, self.apiserver, self.controller_manager

    async def create_namespace(self, name: str) -> None:
        """Create a namespace and wait until pods can be created in it."""
        await self.admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
        await self.admin.wait_for(
            f"/api/v1/namespaces/{name}/serviceaccounts",
            lambda accounts: any(one["metadata"]["name"] == "default" for one in accounts),
            what=f"the default service account of namespace {name} exists",
        )

    async def create_from(self, manifest: Path) -> None:
        """Create the objects of a YAML file, of the kinds in ``COLLECTIONS``."""
        for item in _load(manifest):
            namespace = item["metadata"].get("namespace", "")
            await self.admin.create(COLLECTIONS[item["kind"]].format(namespace=namespace), item)

    async def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig with a fresh token of a service account; returns its path."""
        token = await self._service_account_token(namespace, name)
        return self._kubeconfig(f"{namespace}.{name}", token)

    async def service_account_api(self, namespace: str, name: str) -> Api:
        """Return a client with the rights of a service account, to be entered by the caller."""
        return self._api(self.server, await self._service_account_token(namespace, name))

    async def mark(self) -> int:
        """Mark the present in the audit log: every call answered by now is before it."""
        before = self.audit.end()
        await self._calls_with(await self._leave_marker(), before)
        return self.audit.end()

    async def calls_since(self, mark: int, user: str) -> list[Call]:
        """All calls of ``user`` logged after ``mark`` (from ``mark()``) and answered by now."""
        calls = await self._calls_with(await self._leave_marker(), mark)
        return [call for call in calls if call.user == user]

    async def _leave_marker(self) -> str:
        """Ask for a path that nobody else asks for; return it.

        Every call answered before this one is asked for is in the log once this one is there too.
        """
        name = f"audit-marker-{secrets.token_hex(8)}"
        path = f"/api/v1/namespaces/{name}"
        try:
            await self.admin.get(path)
        except ApiError as absent:
            if absent.status != 404:
                raise
        return path

    async def _calls_with(self, path: str, mark: int) -> list[Call]:
        for _ in range(1000):
            calls = self.audit.calls(mark)
            if any(call.path == path for call in calls):
                return calls
            await self.admin.answers_ok("/livez")  # paced by the server that writes the log
        raise WaitError(f"a request of our own never came up in {self.audit.path}")

    async def _service_account_token(self, namespace: str, name: str) -> str:
        answer = await self.admin.create(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {"spec": {"expirationSeconds": TOKEN_SECONDS}},
        )
        token: str = answer["status"]["token"]
        return token

    def _api(self, server: str, token: str) -> Api:
        return Api(server, token, self._credentials.ca)

    def _kubeconfig(self, user: str, token: str) -> Path:
        return write_kubeconfig(
            self.folder / f"{user}.kubeconfig",
            server=self.server,
            ca=self._credentials.ca,
            user=user,
            token=token,
        )

    def _log(self, program: str) -> Path:
        return self.folder / "logs" / f"{self.name}-{program}.log"

    def _etcd(self, port: int, peer_port: int) -> Program:
        here, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
        return self._program(
            "etcd",
            self.built.etcd,
            {
                "data-dir": self.folder / "etcd",
                "listen-client-urls": here,
                "advertise-client-urls": here,
                "listen-peer-urls": peer,
                "initial-advertise-peer-urls": peer,
                "initial-cluster": f"default={peer}",
                "socket-reuse-port": "true",
                # What it wrote survives its being killed; only a crash of the machine would not.
                "unsafe-no-fsync": "true",
                "log-level": "warn",
            },
            health=(self._etcd_health, "/health"),
        )

    def _apiserver(self, port: int, etcd_port: int) -> Program:
        files: Credentials = self._credentials
        return self._program(
            "apiserver",
            self.built.apiserver,
            {
                "etcd-servers": f"http://127.0.0.1:{etcd_port}",
                "bind-address": "127.0.0.1",
                "advertise-address": "127.0.0.1",
                "secure-port": port,
                "permit-port-sharing": "true",
                "cert-dir": self.folder / "pki",
                "tls-cert-file": files.certificate,
                "tls-private-key-file": files.key,
                "token-auth-file": files.tokens,
                "authorization-mode": "RBAC",
                "service-cluster-ip-range": self.service_range,
                "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
                "service-account-key-file": files.service_account_key,
                "service-account-signing-key-file": files.service_account_key,
                "endpoint-reconciler-type": "none",
                # Else a polite stop waits a minute for the watches of others to end.
                "shutdown-watch-termination-grace-period": "1s",
                "audit-policy-file": AUDIT_POLICY,
                "audit-log-path": self.audit.path,
                "audit-log-mode": "blocking",
                "audit-log-maxsize": 10_000,
                "profiling": "false",
            },
            health=(self.admin, "/readyz"),
        )

    def _controller_manager(self, port: int) -> Program:
        files: Credentials = self._credentials
        user = "controller-manager"
        return self._program(
            user,
            self.built.controller_manager,
            {
                "kubeconfig": self._kubeconfig(user, files.controller_manager_token),
                "use-service-account-credentials": "true",
                "root-ca-file": files.ca,
                "controllers": ",".join(self.controllers),
                "leader-elect": "false",
                "bind-address": "127.0.0.1",
                "secure-port": port,
                "permit-port-sharing": "true",
                "tls-cert-file": files.certificate,
                "tls-private-key-file": files.key,
                "profiling": "false",
            },
            health=(self._manager_health, "/healthz"),
        )

    def _program(
        self, name: str, executable: Path, flags: dict[str, Any], *, health: tuple[Api, str]
    ) -> Program:
        api, path = health
        return Program(
            f"{name} of {self.name}",
            [str(executable), *(f"--{flag}={value}" for flag, value in flags.items())],
            log=self._log(name),
            ready=lambda: api.answers_ok(path),
        )


def _load(manifest: Path) -> list[Object]:
    return list(yaml.safe_load_all(manifest.read_text(encoding="utf-8")))
