"""Which spellings of an IP address may travel between clusters, and in what form.

One address has one text: RFC 5952, lower case.  Anything two parsers could read differently, and
any address that means another host (or none) elsewhere, is refused with a reason that serves as a
counter's label (kubernetes.md E8).  The same table decides what received state may become visible.

Reasons: ``not_an_address`` ``family_mismatch`` ``leading_zero`` ``zone_id`` ``ipv4_mapped``
``ipv4_compatible`` ``unspecified`` ``loopback`` ``link_local`` ``multicast`` ``broadcast``
``address_type``.

Source: RFC 4291, RFC 5952, RFC 6890; Kubernetes' own rules for endpoint addresses.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address

from clusters.errors import AddressError

IPV4 = "IPv4"
IPV6 = "IPv6"
_LONGEST = 80
_QUAD = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)\.([0-9]+)", re.ASCII)
_MAPPED = 0xFFFF
_OCTET = 255


def canonical(address: object, family: str) -> str:
    """The one text of ``address``, which must belong to ``family`` (an addressType).

    Raises :class:`~clusters.errors.AddressError` with one of the module's reasons.
    """
    if not isinstance(address, str):
        raise AddressError("not_an_address", repr(address)[:_LONGEST])
    if family not in {IPV4, IPV6}:
        raise AddressError("address_type", address[:_LONGEST])
    reason, text = _read_v4(address) if family == IPV4 else _read_v6(address)
    if reason:
        raise AddressError(reason, address[:_LONGEST])
    return text


def numeric_key(address: str) -> tuple[int, int]:
    """Sort key of a canonical address: IPv4 before IPv6, then by number."""
    if ":" in address:
        return (6, int(IPv6Address(address)))
    first, second, third, fourth = address.split(".")
    return (4, int(first) << 24 | int(second) << 16 | int(third) << 8 | int(fourth))


def _quad_fault(address: str) -> str:
    """Reason why a text is no dotted quad of decimals without leading zeros; "" when it is one."""
    match = _QUAD.fullmatch(address)
    if match is None:
        return "not_an_address"
    parts = match.groups()
    numbers = [part.lstrip("0") or "0" for part in parts]
    if any(len(number) > len("255") or int(number) > _OCTET for number in numbers):
        return "not_an_address"
    return "leading_zero" if any(len(part) > 1 and part[0] == "0" for part in parts) else ""


def _read_v4(address: str) -> tuple[str, str]:
    """(reason, canonical text) of an address in an IPv4 slice."""
    fault = _quad_fault(address)
    if fault:
        return ("family_mismatch" if _is_v6(address) else fault), ""
    first, second, _, _ = (int(part) for part in address.split("."))
    if address == "0.0.0.0":  # noqa: S104 - compared, not bound
        return "unspecified", ""
    if first == 127:  # noqa: PLR2004 - 127.0.0.0/8
        return "loopback", ""
    if (first, second) == (169, 254):
        return "link_local", ""
    if first & 0xF0 == 0xE0:  # noqa: PLR2004 - 224.0.0.0/4
        return "multicast", ""
    return ("broadcast" if address == "255.255.255.255" else ""), address


def _is_v6(address: str) -> bool:
    base = address.partition("%")[0]
    return ":" in base and _parse_v6(base) is not None


def _parse_v6(text: str) -> IPv6Address | None:
    try:
        return IPv6Address(text)
    except AddressValueError:
        return None


def _read_v6(address: str) -> tuple[str, str]:
    """(reason, canonical text) of an address in an IPv6 slice."""
    if _quad_fault(address) in {"", "leading_zero"}:
        return "family_mismatch", ""
    base, percent, _ = address.partition("%")
    parsed = _parse_v6(base)
    if parsed is None:
        tail = base.rpartition(":")[2]
        embedded = ":" in base and _quad_fault(tail) == "leading_zero"
        return ("leading_zero" if embedded else "not_an_address"), ""
    if percent:
        return "zone_id", ""
    return _meaning_v6(parsed), str(parsed)


def _meaning_v6(address: IPv6Address) -> str:
    """Reason why an IPv6 address must not travel, or ""."""
    number = int(address)
    if number <= 1:
        return "loopback" if number else "unspecified"
    if number >> 32 == _MAPPED:
        return "ipv4_mapped"
    if number >> 32 == 0:
        return "ipv4_compatible"
    if address.is_link_local:
        return "link_local"
    return "multicast" if address.is_multicast else ""
