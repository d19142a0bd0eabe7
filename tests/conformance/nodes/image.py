"""The one image that all pods of the suite run from: a small Debian with the programs it executes.

The suite asks for images by names of a public registry.  The nodes have no registry, so this one is
imported under those names; what the suite executes is in it (socat, nc, nslookup).
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

from .programs import run

PAUSE = "conformance.local/pause:1"
NAMES = ("docker.io/alpine/socat:1.7.4.4", "docker.io/nicolaka/netshoot:v0.15", PAUSE)
PACKAGES = ("socat", "netcat-openbsd", "bind9-dnsutils", "iproute2", "curl")
UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt", "var/lib/apt")
SUITE = "bookworm"


def ensure(folder: Path) -> Path:
    """Return the archive, made with debootstrap if it is not there."""
    archive = folder / f"image-{_fingerprint()}.tar"
    if not archive.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        root = folder / "root"
        shutil.rmtree(root, ignore_errors=True)
        include = ",".join(PACKAGES)
        run(["debootstrap", "--variant=minbase", f"--include={include}", SUITE, str(root)], folder)
        for unused in UNUSED:
            shutil.rmtree(root / unused, ignore_errors=True)
        layer = folder / "layer.tar"
        kept = ["--exclude=./dev/*", "--exclude=./proc/*", "--exclude=./sys/*"]
        run(["tar", "--numeric-owner", *kept, "-C", str(root), "-cf", str(layer), "."], folder)
        part = archive.with_suffix(".part")
        write_image(layer, part, NAMES)
        part.replace(archive)
        layer.unlink()
        shutil.rmtree(root)
    return archive


def _fingerprint() -> str:
    text = json.dumps([SUITE, PACKAGES, NAMES])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def write_image(layer: Path, archive: Path, names: Sequence[str]) -> None:
    """Write an archive as ``docker save`` does: one layer, known by several names."""
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
                "Cmd": ["/bin/sleep", "infinity"],
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": list(names), "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        for member, content in ((name, config), ("manifest.json", json.dumps(manifest).encode())):
            info = tarfile.TarInfo(member)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        tar.add(layer, "layer.tar")
