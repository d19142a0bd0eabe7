"""What health says when a collection cannot be listed or watched: one sentence and its cure.

Texts of the server are quoted shortened; credentials never come here.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusters.errors import ClusterError
from clusters.kubernetes.api_status import ApiStatus
from clusters.kubernetes.objects import Resource


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong with one collection at present."""

    reason: str
    """Stable snake_case code; label of ``watch_errors_total``."""
    message: str
    cure: str = ""
    in_stream: bool = False
    """Told within an accepted watch, so that acceptance alone does not mean it is over."""

    def __str__(self) -> str:
        text = f"{self.reason}: {self.message}"
        return f"{text}; {self.cure}" if self.cure else text


def refusal(resource: Resource, verb: str, status: ApiStatus, *, in_stream: bool) -> Trouble:
    """The server's no to ``verb`` on a collection."""
    message = f"{verb} {resource.name}: {status}"
    if status.forbidden:
        where = f' in apiGroups ["{resource.group}"]'
        cure = f"grant our account the verb {verb} on {resource.name}{where} cluster-wide"
        return Trouble("api_forbidden", message, cure, in_stream)
    if status.unauthorized:
        cure = "renew the token, client certificate or credential plugin named in the kubeconfig"
        return Trouble("api_unauthorized", message, cure, in_stream)
    if status.not_found:
        versions = ", ".join(resource.api_version(version) for version in resource.versions)
        missing = f"{resource.name} ({versions}) are not served by this API server"
        cure = resource.cure or "point the kubeconfig at a Kubernetes API server"
        return Trouble("api_not_found", missing, cure, in_stream)
    if status.throttled:
        return Trouble("api_throttled", message, "it is asked again later", in_stream)
    return Trouble("api_error", message, "see the API server's log; it is asked again", in_stream)


def failure(resource: Resource, error: ClusterError) -> Trouble:
    """An attempt that got no answer (network, credentials)."""
    return Trouble(error.code, f"{resource.name}: {error.message}", error.cure)


def broken_list(resource: Resource) -> Trouble:
    """An answer that is no list."""
    cure = "check that the server address is that of a Kubernetes API server; it is asked again"
    return Trouble("bad_list", f"the answer to list {resource.name} is not a list", cure)


def too_long(resource: Resource, namespace: str | None, name: str | None) -> Trouble:
    """An object beyond the size limits."""
    what = resource.kind if name is None else "/".join((resource.kind, namespace or "-", name))
    cure = "make the object smaller; meanwhile it is read by listing"
    return Trouble("watch_line_too_long", f"{what} exceeds the size limit", cure)


def silent(resource: Resource, age: float) -> Trouble:
    """A watch that ought to have said something or ended."""
    cure = "check the network to the API server; the watch is opened anew by itself"
    return Trouble("watch_silent", f"{resource.name}: nothing heard for {age:.0f} s", cure)
