"""Certificates and keys to reach an API server: files, or bytes that never become one.

What a kubeconfig carries inline, and what a plugin hands out, is loaded from memory: a process that
is killed leaves no key behind in the temporary folder.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

Material = Path | bytes
"""Where the PEM lies, or the PEM itself."""


def content(material: Material) -> bytes:
    """The PEM itself; raises :class:`OSError` when its file cannot be read."""
    return material if isinstance(material, bytes) else material.read_bytes()


def load_authority(context: ssl.SSLContext, material: Material) -> None:
    """Trust these authorities; raises :class:`OSError` or :class:`ValueError`."""
    if isinstance(material, Path):
        context.load_verify_locations(cafile=material)
    else:
        # The library wants text; people write comments around the certificates as they like.
        context.load_verify_locations(cadata=material.decode("ascii", "ignore"))


def load_pair(context: ssl.SSLContext, certificate: Material, key: Material | None) -> None:
    """Show this certificate; None = its key lies beside it.

    Raises :class:`OSError` or :class:`ValueError`.
    """
    if isinstance(certificate, Path) and not isinstance(key, bytes):
        context.load_cert_chain(certificate, key)
        return
    parts = (certificate,) if key is None else (certificate, key)
    with _in_memory(b"\n".join(map(content, parts))) as path:
        context.load_cert_chain(path)


@contextmanager
def _in_memory(data: bytes) -> Iterator[Path]:
    """A path under which ``ssl`` can read the data while the context lasts; it is on no disk."""
    descriptor = os.memfd_create("pair", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
