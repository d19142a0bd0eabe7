"""The custom resource definitions of the Multi-Cluster Services API, from their Go module."""

from __future__ import annotations

import json
import os
from pathlib import Path

from .build import Go, cache_folder

MODULE = "sigs.k8s.io/mcs-api"
VERSION = "0.5.2"
FILES = (
    "multicluster.x-k8s.io_serviceexports.yaml",
    "multicluster.x-k8s.io_serviceimports.yaml",
)


def multicluster_crds() -> tuple[Path, ...]:
    """Return their files in the cache, copied there once; BuildError without Go or the module."""
    folder = cache_folder() / f"mcs-api-{VERSION}"
    wanted = tuple(folder / name for name in FILES)
    if not all(path.is_file() for path in wanted):
        folder.mkdir(parents=True, exist_ok=True)
        module = f"{MODULE}@v{VERSION}"
        answer = Go(folder).run(("mod", "download", "-json", module), doing=f"downloading {module}")
        source = Path(json.loads(answer)["Dir"]) / "config" / "crd"
        for path in wanted:
            part = path.with_name(f"{path.name}.{os.getpid()}.part")
            part.write_bytes((source / path.name).read_bytes())
            part.replace(path)
    return wanted
