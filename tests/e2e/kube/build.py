"""Build the real Kubernetes programs of the end-to-end tests, once, into a cache outside the clone.

The tests run etcd, kube-apiserver and kube-controller-manager as plain processes.  They are built
from their Go modules with the ordinary Go client, so whatever proxy or vendoring the machine's Go
is set to use is used; nothing else is downloaded.

Layout: ``CACHE/kube/1.36.3/kube-apiserver`` and ``CACHE/kube/etcd-3.6.16/etcd``, where CACHE is
``$REPLICATOR_E2E_CACHE``, else ``$XDG_CACHE_HOME/crdt-replicator``, else
``~/.cache/crdt-replicator``.

Invariants: a program that exists under its final name is whole (it is renamed there after it was
built); two runs at once build each program once (a lock file per release, freed by the kernel if
its holder dies); an interrupted run goes on where it stopped.  Nothing is ever removed but our own
unfinished files.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

DEFAULT_VERSION = "1.36.3"
ETCD_VERSION = "3.6.16"
PROGRESS_SECONDS = 15.0
STAGING = re.compile(r"^\s*(k8s\.io/[a-z0-9-]+) => \./staging/", re.MULTILINE)


class BuildError(Exception):
    """The programs could not be built; what was finished stays.  One line that says what to do."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Paths of the built executables of one Kubernetes release and its etcd."""

    version: str
    etcd: Path
    apiserver: Path
    controller_manager: Path


@dataclass(frozen=True, slots=True)
class Release:
    """One Go module at one version and the commands wanted from it.

    ``commands`` maps the executable's name to its Go package.  ``staging_version`` is set for
    Kubernetes, whose module refers to its own parts by relative folders that only exist in its
    repository: each is replaced by the published module of the same release.
    """

    folder: str
    module: str
    version: str
    commands: dict[str, str]
    link_flags: str
    staging_version: str | None = None
    tags: str = ""


def kubernetes_release(
    version: str, names: Sequence[str] = ("kube-apiserver", "kube-controller-manager")
) -> Release:
    """Describe Kubernetes ``version`` ("1.36.3"); BuildError if it does not look like one."""
    found = re.fullmatch(r"v?1\.(\d+)\.(\d+)", version)
    if found is None:
        raise BuildError(f"not a Kubernetes version: {version!r}; give one like {DEFAULT_VERSION}")
    minor, patch = found.groups()
    stamp = "k8s.io/component-base/version"
    return Release(
        folder=f"1.{minor}.{patch}",
        module="k8s.io/kubernetes",
        version=f"v1.{minor}.{patch}",
        commands={name: f"k8s.io/kubernetes/cmd/{name}" for name in names},
        # Without the version stamped in at link time clients are told v0.0.0.
        link_flags=f"-s -w -X {stamp}.gitVersion=v1.{minor}.{patch}"
        f" -X {stamp}.gitMajor=1 -X {stamp}.gitMinor={minor}",
        staging_version=f"v0.{minor}.{patch}",
    )


def etcd_release(version: str = ETCD_VERSION) -> Release:
    """Describe etcd ``version``."""
    return Release(
        folder=f"etcd-{version}",
        module="go.etcd.io/etcd/server/v3",
        version=f"v{version}",
        commands={"etcd": "go.etcd.io/etcd/server/v3"},
        link_flags="-s -w",
    )


def cache_folder() -> Path:
    """Folder that holds every built release; not created here."""
    own = os.environ.get("REPLICATOR_E2E_CACHE")
    if own:
        return Path(own).expanduser().absolute() / "kube"
    shared = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(shared).expanduser().absolute() / "crdt-replicator" / "kube"


def ensure(version: str = DEFAULT_VERSION) -> Programs:
    """Return the programs of Kubernetes ``version``, building what is missing (minutes, once)."""
    kubernetes, etcd = kubernetes_release(version), etcd_release()
    for release in (etcd, kubernetes):
        ensure_release(release)
    home = cache_folder()
    return Programs(
        version=kubernetes.folder,
        etcd=home / etcd.folder / "etcd",
        apiserver=home / kubernetes.folder / "kube-apiserver",
        controller_manager=home / kubernetes.folder / "kube-controller-manager",
    )


def ensure_release(release: Release) -> None:
    """Build what is missing of one release."""
    folder = cache_folder() / release.folder
    if not _missing(folder, release):
        return
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock", release):
        missing = _missing(folder, release)  # another run may have built them meanwhile
        if not missing:
            return
        go = Go(folder / "module")
        _prepare_module(go, release)
        for left_over in folder.glob("*.part"):
            left_over.unlink()
        for name in missing:
            # Named after this run: a compiler that outlived a killed run must not write into ours.
            part = folder / f"{name}.{os.getpid()}.part"
            go.run(
                ("build", "-v", "-buildvcs=false", "-trimpath", "-tags", release.tags),
                ("-ldflags", release.link_flags, "-o", str(part), release.commands[name]),
                doing=f"building {name} {release.version}",
            )
            part.replace(folder / name)


def _missing(folder: Path, release: Release) -> list[str]:
    return [name for name in release.commands if not (folder / name).is_file()]


def _prepare_module(go: Go, release: Release) -> None:
    """Make the module that pins ``release``; the marker comes last, so half a module is redone."""
    marker = go.folder / "prepared"
    if marker.is_file():
        return
    shutil.rmtree(go.folder, ignore_errors=True)
    go.folder.mkdir()
    go.run(("mod", "init", "programs"))
    if release.staging_version is not None:
        wanted = f"{release.module}@{release.version}"
        answer = go.run(("mod", "download", "-json", wanted), doing=f"downloading {wanted}")
        go_mod = Path(json.loads(answer)["GoMod"]).read_text(encoding="utf-8")
        for part in sorted(set(STAGING.findall(go_mod))):
            go.run(("mod", "edit", f"-replace={part}={part}@{release.staging_version}"))
    tools = [f"{package}@{release.version}" for package in release.commands.values()]
    go.run(("get", "-tool", *tools), doing=f"downloading what {release.module} needs")
    marker.touch()


@contextlib.contextmanager
def _locked(path: Path, release: Release) -> Iterator[None]:
    """Hold the lock of one release; waits for another run, which is most likely building it."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"another run is building {release.module} {release.version}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Go:
    """The go command in one module folder."""

    def __init__(self, folder: Path) -> None:
        found = shutil.which("go")
        if found is None:
            raise BuildError(
                "the go command is not on PATH; install Go (1.26 or newer for Kubernetes "
                f"{DEFAULT_VERSION}), or let REPLICATOR_E2E_CACHE name a cache already built"
            )
        self.command = found
        self.folder = folder

    def run(self, *arguments: Sequence[str], doing: str | None = None) -> str:
        """Run go; returns its standard output.  BuildError carries its last words on failure."""
        command = [self.command, *(word for group in arguments for word in group)]
        progress = _Progress(doing, time.monotonic) if doing else None
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            last: list[str] = []
            # Only `mod download -json` writes to stdout, a few lines: no deadlock on its pipe.
            for line in process.stderr:
                last = [*last[-4:], line.strip()]
                if progress:
                    progress.step()
            output = process.stdout.read()
        if process.returncode != 0:
            why = "; ".join(last) or output.strip()
            raise BuildError(f"`go {' '.join(command[1:3])}` failed in {self.folder}: {why}")
        if progress:
            progress.finish()
        return output


class _Progress:
    """Says on standard error what goes on: at the start, every few seconds, and at the end."""

    def __init__(self, doing: str, clock: Callable[[], float]) -> None:
        self._doing, self._clock = doing, clock
        self._start = self._said = clock()
        self._steps = 0
        _say(f"{doing} ...")

    def step(self) -> None:
        """Count one line of go's output: a package compiled or a module downloaded."""
        self._steps += 1
        now = self._clock()
        if now - self._said >= PROGRESS_SECONDS:
            self._said = now
            _say(f"{self._doing}: {self._steps} packages, {now - self._start:.0f} s")

    def finish(self) -> None:
        """Say how long it took."""
        _say(f"{self._doing}: done in {self._clock() - self._start:.0f} s")


def _say(text: str) -> None:
    sys.stderr.write(f"e2e build: {text}\n")
    sys.stderr.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Build for ``--version`` and print the paths; 0, or 1 with one line on standard error."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--version", default=os.environ.get("REPLICATOR_E2E_KUBE", DEFAULT_VERSION))
    options = parser.parse_args(argv)
    os.nice(5)  # minutes of compilation must not starve the machine they run on
    try:
        programs = ensure(options.version)
    except BuildError as error:
        _say(str(error))
        return 1
    except OSError as error:
        _say(f"{error}; choose another cache with REPLICATOR_E2E_CACHE")
        return 1
    for path in (programs.etcd, programs.apiserver, programs.controller_manager):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
