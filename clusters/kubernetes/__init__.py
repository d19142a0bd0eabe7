"""A Kubernetes cluster as source and target: list-watch, credentials, writes."""

from clusters.kubernetes.client import Connection
from clusters.kubernetes.cluster import KubernetesCluster
from clusters.kubernetes.connection import ApiConnection
from clusters.kubernetes.kubeconfig import KubeconfigError
from clusters.kubernetes.settings import KubernetesSettings, WatchSettings

__all__ = [
    "ApiConnection",
    "Connection",
    "KubeconfigError",
    "KubernetesCluster",
    "KubernetesSettings",
    "WatchSettings",
]
