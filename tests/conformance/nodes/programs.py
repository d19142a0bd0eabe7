"""Programs of a node, built once into the cache of the end-to-end tests."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.kube import build

CONTAINERD = "2.2.9"
CNI_PLUGINS = "1.9.1"
COREDNS = "1.14.6"
SMALL = "-s -w"
PACKAGE_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class NodePrograms:
    """Folders of the programs; each folder holds what its name says under the usual names."""

    etcd: Path
    apiserver: Path
    controller_manager: Path
    kubernetes: Path
    """kubelet, kube-proxy and kube-scheduler."""
    containerd: Path
    cni: Path
    coredns: Path
    runc: Path


def releases(version: str = build.DEFAULT_VERSION) -> list[build.Release]:
    """What a node needs beside a control plane."""
    kubernetes = build.kubernetes_release(version, ("kubelet", "kube-proxy", "kube-scheduler"))
    containerd = "github.com/containerd/containerd/v2"
    plugins = "github.com/containernetworking/plugins"
    return [
        build.Release(
            folder=f"{kubernetes.folder}-node",
            module=kubernetes.module,
            version=kubernetes.version,
            commands=kubernetes.commands,
            link_flags=kubernetes.link_flags,
            staging_version=kubernetes.staging_version,
        ),
        build.Release(
            folder=f"containerd-{CONTAINERD}",
            module=containerd,
            version=f"v{CONTAINERD}",
            commands={
                name: f"{containerd}/cmd/{name}"
                for name in ("containerd", "containerd-shim-runc-v2", "ctr")
            },
            link_flags=SMALL,
            tags="no_btrfs no_zfs no_devmapper no_tracing",
        ),
        build.Release(
            folder=f"cni-{CNI_PLUGINS}",
            module=plugins,
            version=f"v{CNI_PLUGINS}",
            commands={
                name: f"{plugins}/plugins/{kind}/{name}"
                for kind, name in (("main", "ptp"), ("main", "loopback"), ("ipam", "host-local"))
            },
            link_flags=SMALL,
        ),
        build.Release(
            folder=f"coredns-{COREDNS}",
            module="github.com/coredns/coredns",
            version=f"v{COREDNS}",
            commands={"coredns": "github.com/coredns/coredns"},
            link_flags=SMALL,
        ),
    ]


def ensure(version: str = build.DEFAULT_VERSION) -> NodePrograms:
    """Build what is missing; BuildError if something cannot be built."""
    plane = build.ensure(version)
    node, containerd, cni, coredns = releases(version)
    home = build.cache_folder()
    for release in (node, containerd, cni, coredns):
        build.ensure_release(release)
    return NodePrograms(
        etcd=plane.etcd,
        apiserver=plane.apiserver,
        controller_manager=plane.controller_manager,
        kubernetes=home / node.folder,
        containerd=home / containerd.folder,
        cni=home / cni.folder,
        coredns=home / coredns.folder / "coredns",
        runc=_runc(home / "runc"),
    )


def _runc(folder: Path) -> Path:
    """Unpack Debian's package, without installing it."""
    program = folder / "usr" / "sbin" / "runc"
    if not program.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        run(["apt-get", "download", "runc"], folder)
        [package] = folder.glob("runc_*.deb")
        run(["dpkg", "-x", str(package), str(folder)], folder)
        package.unlink()
    return program


def run(command: Sequence[str], folder: Path) -> str:
    """Run a command of the system to its end; BuildError with its last words if it fails."""
    found = shutil.which(command[0])
    if found is None:
        raise build.BuildError(f"the {command[0]} command is not on PATH")
    done = subprocess.run(
        [found, *command[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PACKAGE_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        raise build.BuildError(f"`{' '.join(command)[:120]}` failed: {said}")
    return done.stdout
