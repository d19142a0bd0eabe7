"""Which cluster a certificate speaks for.

The identity is the one URI subject alternative name ``spiffe://<clusterset>/cluster/<cluster>``;
both parts are DNS labels.  The common name is never read.  A certificate with none, several, or
another kind of URI speaks for nobody.  Source: the SPIFFE ID and X.509-SVID standards.

Pure.  It does not check who issued the certificate: the caller has done that, or does it next.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cryptography import x509

from replicator.errors import ProtocolError

MAX_LABEL = 63
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_CURE = "issue it with `replicator pki issue`, which writes the identity"


def is_label(text: str) -> bool:
    """Whether ``text`` is a DNS label: a-z, 0-9 and inner hyphens, 1 to 63 characters."""
    return len(text) <= MAX_LABEL and _LABEL.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, order=True)
class PeerIdentity:
    """A cluster of a clusterset, as a certificate names it."""

    clusterset: str
    cluster: str

    def __str__(self) -> str:
        return f"spiffe://{self.clusterset}/cluster/{self.cluster}"


def _nobody(detail: str) -> ProtocolError:
    return ProtocolError(detail, cure=_CURE, code="no_cluster_identity")


def parse_identity(uri: str) -> PeerIdentity:
    """Read ``spiffe://<clusterset>/cluster/<cluster>``.

    Raises :class:`~replicator.errors.ProtocolError` (code ``no_cluster_identity``) for every other
    text: upper case, ports, users, queries, escapes and further path segments included.
    """
    scheme, _, rest = uri.partition("://")
    parts = rest.split("/")
    if (
        scheme != "spiffe"
        or len(parts) != 3  # noqa: PLR2004  clusterset, the word "cluster", cluster
        or parts[1] != "cluster"
        or not (is_label(parts[0]) and is_label(parts[2]))
    ):
        raise _nobody(f"the URI {uri[:200]!r} names no cluster")
    return PeerIdentity(parts[0], parts[2])


def identity_of(certificate: x509.Certificate) -> PeerIdentity:
    """The identity in ``certificate``'s only URI name.

    Raises :class:`~replicator.errors.ProtocolError` (code ``no_cluster_identity``) when there is
    not exactly one URI, when it is not of our form, or when the extensions cannot be read.
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound as error:
        raise _nobody("the certificate has no subject alternative name") from error
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise _nobody("the certificate's extensions cannot be read") from error
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if len(uris) != 1:
        raise _nobody(f"the certificate has {len(uris)} URI names where one is needed")
    return parse_identity(uris[0])
