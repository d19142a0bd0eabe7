"""Everything that is written for one node before it starts: keys, configurations, what it runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.kube.credentials import Credentials, make_credentials, write_kubeconfig

from .image import PAUSE
from .network import PREFIX, Addresses
from .programs import NodePrograms

ETCD, ETCD_PEER = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
CONTAINERD = "/run/containerd/containerd.sock"
SETTINGS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
"""What the kubelet wants of the kernel; the node is made to read that it is so."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node and its files, all in ``folder``."""

    name: str
    addresses: list[Addresses]
    """One for each family, IPv4 first."""
    folder: Path
    programs: NodePrograms
    image: Path

    @property
    def server(self) -> str:
        """The API server."""
        return f"https://{self.addresses[0].node}:6443"

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of its administrator."""
        return self.folder / "admin.kubeconfig"

    @property
    def spec(self) -> Path:
        """What ``init.py`` is given."""
        return self.folder / "spec.json"

    @property
    def imported(self) -> Path:
        """Exists once the image is there."""
        return self.folder / "imported"

    @property
    def cgroup(self) -> str:
        """Name of the control group of its pods."""
        return f"{PREFIX}-{self.name}"

    def write(self) -> Credentials:
        """Write all files; returns the credentials among them."""
        addresses = ["127.0.0.1", *(one.node for one in self.addresses)]
        keys = make_credentials(self.folder / "pki", self.name, addresses)
        (self.folder / "logs").mkdir()
        (self.folder / "cni").mkdir()
        (self.folder / "resolv.conf").touch()
        write_kubeconfig(
            self.kubeconfig, server=self.server, ca=keys.ca, user="admin", token=keys.admin_token
        )
        for name, text in (
            ("Corefile", self._corefile()),
            ("containerd.toml", self._containerd()),
            ("cni/10-pods.conflist", json.dumps(self._pod_network())),
            ("kubelet.yaml", yaml.safe_dump(self._kubelet())),
            ("proxy.yaml", yaml.safe_dump(self._proxy())),
        ):
            (self.folder / name).write_text(text, encoding="utf-8")
        self.spec.write_text(json.dumps(self._spec(keys)), encoding="utf-8")
        return keys

    def _spec(self, keys: Credentials) -> dict[str, Any]:
        return {
            "name": self.name,
            "path": ":".join(str(p) for p in (self.programs.containerd, self.programs.runc.parent)),
            "logs": str(self.folder / "logs"),
            "binds": {"/var/lib/kubelet": str(self.folder / "kubelet")},
            "settings": SETTINGS,
            "parts": {**self._control_plane(keys), **self._node_parts()},
            "once": ["import"],
        }

    def _control_plane(self, keys: Credentials) -> dict[str, list[str]]:
        at, programs = self.addresses[0].node, self.programs
        etcd = {
            "data-dir": self.folder / "etcd",
            "unsafe-no-fsync": "true",
            "listen-client-urls": ETCD,
            "advertise-client-urls": ETCD,
            "listen-peer-urls": ETCD_PEER,
            "initial-advertise-peer-urls": ETCD_PEER,
            "initial-cluster": f"default={ETCD_PEER}",
        }
        apiserver = {
            "etcd-servers": ETCD,
            "bind-address": at,
            "advertise-address": at,
            "secure-port": 6443,
            "tls-cert-file": keys.certificate,
            "tls-private-key-file": keys.key,
            "token-auth-file": keys.tokens,
            "authorization-mode": "Node,RBAC",
            "allow-privileged": "true",
            "service-cluster-ip-range": ",".join(one.services for one in self.addresses),
            "service-account-issuer": f"https://{self.name}.conformance",
            "service-account-key-file": keys.service_account_key,
            "service-account-signing-key-file": keys.service_account_key,
            "kubelet-preferred-address-types": "InternalIP",
        }
        manager = {
            "kubeconfig": self.kubeconfig,
            "leader-elect": "false",
            "service-account-private-key-file": keys.service_account_key,
            "root-ca-file": keys.ca,
            "bind-address": "127.0.0.1",
            # Every spec makes a namespace in every cluster and deletes it without waiting.
            "kube-api-qps": 100,
            "kube-api-burst": 200,
            "concurrent-namespace-syncs": 10,
        }
        scheduler = {
            "kubeconfig": self.kubeconfig,
            "leader-elect": "false",
            "bind-address": "127.0.0.1",
        }
        return {
            "etcd": _command(programs.etcd, etcd),
            "apiserver": _command(programs.apiserver, apiserver),
            "controller-manager": _command(programs.controller_manager, manager),
            "scheduler": _command(programs.kubernetes / "kube-scheduler", scheduler),
        }

    def _node_parts(self) -> dict[str, list[str]]:
        programs, folder = self.programs, self.folder
        kubelet = {
            "kubeconfig": self.kubeconfig,
            "config": folder / "kubelet.yaml",
            "hostname-override": self.name,
            "node-ip": ",".join(one.node for one in self.addresses),
            "root-dir": "/var/lib/kubelet",
            "cert-dir": "/var/lib/kubelet/pki",
        }
        into = f"{programs.containerd}/ctr -a {CONTAINERD} -n k8s.io images import {self.image}"
        importing = f"until {into}; do sleep 0.2; done; touch {self.imported}"
        return {
            "containerd": _command(
                programs.containerd / "containerd", {"config": folder / "containerd.toml"}
            ),
            "import": ["sh", "-c", importing],
            "kubelet": _command(programs.kubernetes / "kubelet", kubelet),
            "proxy": _command(
                programs.kubernetes / "kube-proxy", {"config": folder / "proxy.yaml"}
            ),
            "dns": [str(programs.coredns), "-conf", str(folder / "Corefile")],
        }

    def _corefile(self) -> str:
        # The image's nslookup takes no answer from whoever does not offer recursion.
        return f"""
.:53 {{
  bind {self.addresses[0].node}
  errors
  header {{
    response set ra
  }}
  kubernetes cluster.local clusterset.local {{
    kubeconfig {self.kubeconfig} e2e
    multicluster clusterset.local
    ttl 1
  }}
}}
"""

    def _containerd(self) -> str:
        runtime = "plugins.'io.containerd.cri.v1.runtime'"
        return f"""
version = 3
root = "{self.folder / "containerd"}"
state = "/run/containerd"
[grpc]
address = "{CONTAINERD}"
[plugins.'io.containerd.cri.v1.images']
snapshotter = "overlayfs"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE}"
[{runtime}]
restrict_oom_score_adj = true
[{runtime}.cni]
bin_dirs = ["{self.programs.cni}"]
conf_dir = "{self.folder / "cni"}"
[{runtime}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{runtime}.containerd.runtimes.runc.options]
BinaryName = "{self.programs.runc}"
SystemdCgroup = false
"""

    def _pod_network(self) -> dict[str, Any]:
        routes = [{"dst": "::/0" if one.six else "0.0.0.0/0"} for one in self.addresses]
        addresses = {
            "type": "host-local",
            "dataDir": str(self.folder / "addresses"),
            "ranges": [[{"subnet": one.pods}] for one in self.addresses],
            "routes": routes,
        }
        plugin = {"type": "ptp", "ipMasq": False, "ipam": addresses}
        return {"cniVersion": "1.0.0", "name": "pods", "plugins": [plugin]}

    def _kubelet(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.addresses[0].node,
            "readOnlyPort": 0,
            # The node can be reached from this machine alone.
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "enforceNodeAllocatable": ["none"],
            "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
            "clusterDNS": [self.addresses[0].dns],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self.folder / "resolv.conf"),
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "serializeImagePulls": False,
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
        }

    def _proxy(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "hostnameOverride": self.name,
            "clusterCIDR": ",".join(one.pods for one in self.addresses),
            "clientConnection": {"kubeconfig": str(self.kubeconfig)},
            "nftables": {"minSyncPeriod": "100ms"},
            # It would set these for the whole machine.
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
        }


def _command(program: Path, flags: dict[str, Any]) -> list[str]:
    return [str(program), *(f"--{flag}={value}" for flag, value in flags.items())]
