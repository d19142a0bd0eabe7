"""Settings of a source: which services of a cluster are offered to the others (kubernetes.md E15).

Plain values, validated when made.  ``kube-system`` and the API server's own ``default/kubernetes``
are never offered unless asked for: the first by an include pattern that names it without a
wildcard, the second by listing it in :attr:`NamespaceFilter.services`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from clusters.model import ServiceKey

SYSTEM_NAMESPACE = "kube-system"
API_SERVER_SERVICE = ServiceKey("default", "kubernetes")


class ExportMode(StrEnum):
    """What makes a service offered to the clusterset."""

    ALL = "all"
    """Every service in the admitted namespaces."""
    ANNOTATED = "annotated"
    """Services whose object carries :data:`clusters.exports.EXPORT_ANNOTATION` ``"true"``."""
    SERVICE_EXPORT = "service-export"
    """Services with a ServiceExport of their name (KEP-1645)."""


@dataclass(frozen=True, slots=True)
class NamespaceFilter:
    """Glob patterns (``*``, ``?``, ``[...]``; case matters) over namespace names.

    A namespace is admitted when some ``include`` pattern matches it and no ``exclude`` pattern
    does.
    """

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = (SYSTEM_NAMESPACE,)
    services: frozenset[ServiceKey] = frozenset()
    """Services admitted by name although the rules below would leave them out."""

    def admits(self, namespace: str) -> bool:
        """Whether services of ``namespace`` may be offered."""
        if any(fnmatchcase(namespace, pattern) for pattern in self.exclude):
            return False
        if namespace == SYSTEM_NAMESPACE:
            return SYSTEM_NAMESPACE in self.include
        return any(fnmatchcase(namespace, pattern) for pattern in self.include)

    def admits_service(self, key: ServiceKey) -> bool:
        """Whether ``key`` may be offered: its namespace, and not the API server's own service."""
        if key in self.services:
            return True
        return key != API_SERVER_SERVICE and self.admits(key.namespace)
