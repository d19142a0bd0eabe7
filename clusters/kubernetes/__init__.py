"""A Kubernetes cluster as source and target: list-watch, credentials, writes.

``clusters.kubernetes.cluster`` is imported by who runs one: it alone pulls in the HTTP client.
"""

from clusters.kubernetes.settings import KubernetesSettings, WatchSettings

__all__ = ["KubernetesSettings", "WatchSettings"]
