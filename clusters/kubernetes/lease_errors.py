"""What a refused call about the lease means.  Pure."""

from __future__ import annotations

from clusters.errors import ClusterError, ClusterUnavailableError, LeaseConflictError
from clusters.kubernetes.api_status import ApiStatus
from clusters.kubernetes.write_errors import ApiBusyError

_CONFLICT = 409
_SERVER_ERRORS = 500


def error_of(verb: str, where: str, status: ApiStatus) -> ClusterError:
    """The error to raise when ``verb`` on the lease ``where`` was refused; nothing was written.

    A conflict when the lease is another one than was read (made, changed or deleted meanwhile),
    unavailable for everything else, with the right that is missing named.
    """
    what = f"{verb} Lease {where}: {status}"
    namespace = where.partition("/")[0]
    missing = status.not_found and status.kind == "namespaces"
    if not missing and (status.code == _CONFLICT or (status.not_found and verb == "update")):
        return LeaseConflictError(what, cure="it is read again by itself")
    if status.throttled or (status.code or 0) >= _SERVER_ERRORS:
        return ApiBusyError(what, retry_after=status.retry_after or 1.0)
    code, cure = "lease_refused", "report this as a bug, with the message"
    if missing:
        code, cure = "no_namespace", f"create the namespace {namespace}"
    elif status.forbidden and "NamespaceTerminating" in status.causes:
        code, cure = "namespace_terminating", f"keep the lease elsewhere: {namespace} is deleted"
    elif status.forbidden:
        code = "api_forbidden"
        cure = (
            f"grant our account the verb {verb} on leases in the namespace {namespace},"
            ' apiGroups ["coordination.k8s.io"]'
        )
    elif status.unauthorized:
        code, cure = "api_unauthorized", "renew the credentials named in the kubeconfig"
    return ClusterUnavailableError(what, cure=cure, code=code)
