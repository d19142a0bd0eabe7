"""Tables of what an agent shows: which columns, and how values read.  Pure.

A cell that is not known is a dash.  Ages and delays carry their unit, so a column can be read
without its title; nothing is coloured or escaped here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

Row = Mapping[str, Any]
NONE = "-"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_KIB = 1024
_NANOTIME_DIGITS = 19


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its title, how a row becomes its cell, and whether only ``wide`` shows it."""

    title: str
    cell: Callable[[Row], str]
    wide: bool = False
    right: bool = False


def text(value: object) -> str:
    """A value as it is; a dash for None and "", yes and no for truth values."""
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def seconds(value: float | None) -> str:
    """A duration in the units that tell something: 40 ms, 3.2 s, 4 m 10 s, 3 h 5 m, 2 d 1 h."""
    if value is None:
        return NONE
    whole = int(value)
    if value < 1:
        shown = f"{value * 1000:.0f} ms"
    elif value < 10:  # noqa: PLR2004 - below ten seconds a tenth matters
        shown = f"{value:.1f} s"
    elif whole < _MINUTE:
        shown = f"{whole} s"
    elif whole < _HOUR:
        shown = f"{whole // _MINUTE} m {whole % _MINUTE} s"
    elif whole < _DAY:
        shown = f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} m"
    else:
        shown = f"{whole // _DAY} d {whole % _DAY // _HOUR} h"
    return shown


def milliseconds(value: float | None) -> str:
    """Milliseconds with their unit; one decimal below ten."""
    if value is None:
        return NONE
    return f"{value:.1f} ms" if abs(value) < 10 else f"{value:.0f} ms"  # noqa: PLR2004


def moment(value: object) -> str:
    """Unix nanoseconds in decimal digits as a UTC time to the millisecond; other texts as is."""
    told = text(value)
    if not (told.isascii() and told.isdigit() and len(told) <= _NANOTIME_DIGITS):
        return told
    whole, nanoseconds = divmod(int(told), 1_000_000_000)
    at = datetime.fromtimestamp(whole, tz=UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{nanoseconds // 1_000_000:03d}Z"


def size(value: int | None) -> str:
    """Bytes in binary units."""
    if value is None:
        return NONE
    amount, unit = float(value), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < _KIB:
            break
        amount, unit = amount / _KIB, larger
    return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"


def ports(value: Sequence[Mapping[str, Any]] | None) -> str:
    """A port set: ``http:8080/TCP,metrics:9090/TCP``; ``*`` for all ports."""
    if value is None:
        return "*"
    shown = []
    for port in value:
        name = f"{port.get('name')}:" if port.get("name") else ""
        number = NONE if port.get("port") is None else port["port"]
        shown.append(f"{name}{number}/{port.get('protocol')}")
    return ",".join(shown)


def state(item: Row) -> str:
    """The three conditions of an ITEM as one word each, the surprising ones only."""
    words = ["ready" if item.get("ready") else "not ready"]
    if item.get("serving") and not item.get("ready"):
        words.append("serving")
    if item.get("terminating"):
        words.append("terminating")
    return ", ".join(words)


def tag_cluster(item: Row) -> str:
    """The cluster in a tag."""
    return text(str(item.get("tag") or "").rpartition(":")[0])


def cells(
    columns: Sequence[Column], rows: Sequence[Row], *, wide: bool
) -> tuple[list[Column], list[list[str]]]:
    """The columns to show and each row's cells in them."""
    shown = [column for column in columns if wide or not column.wide]
    return shown, [[column.cell(row) for column in shown] for row in rows]


def field(
    title: str,
    key: str,
    form: Callable[[Any], str] = text,
    *,
    wide: bool = False,
    right: bool | None = None,
) -> Column:
    """A column of one key (``a.b`` for a key within a key); numbers stand to the right."""
    first, _, second = key.partition(".")

    def cell(row: Row) -> str:
        value = row.get(first)
        if second:
            value = value.get(second) if isinstance(value, Mapping) else None
        return form(value)

    to_the_right = form is not text if right is None else right
    return Column(title, cell, wide=wide, right=to_the_right)


def _link(row: Row) -> str:
    if row.get("self"):
        return "self"
    peer = row.get("peer")
    return NONE if peer is None else text(peer.get("state")).replace("_", " ")


def _digest(row: Row) -> str:
    peer = row.get("peer")
    equal = None if peer is None else peer.get("digest_equal")
    return NONE if equal is None else "equal" if equal else "differs"


CLUSTERS: tuple[Column, ...] = (
    field("CLUSTER", "cluster"),
    field("SHARD", "shard", wide=True, right=True),
    field("REGION", "region", wide=True),
    Column("STATE", lambda row: "self" if row.get("self") else text(row.get("state"))),
    field("BEHIND", "staleness_seconds", seconds),
    field("POLICY", "policy", wide=True),
    field("ELEMENTS", "elements", right=True),
    field("HIDDEN", "addresses_hidden", wide=True, right=True),
    field("TOMBSTONES", "tombstones", wide=True, right=True),
    field("SERVICES", "services", right=True),
    field("P50", "convergence_ms.p50", milliseconds),
    field("P99", "convergence_ms.p99", milliseconds),
    field("MAX", "convergence_ms.max", milliseconds, wide=True),
    field("VIA", "via"),
    field("HEAD AGE", "head_age_seconds", seconds),
    field("CLOCK", "clock_offset_ms", milliseconds, wide=True),
    field("EPOCH", "head.epoch", wide=True, right=True),
    field("HEAD", "head.stamp", wide=True),
    Column("ROOT", lambda row: text(str((row.get("head") or {}).get("root", ""))[:12]), wide=True),
)

PEERS: tuple[Column, ...] = (
    field("PEER", "cluster"),
    Column("STATE", lambda row: text(row.get("state")).replace("_", " ")),
    field("FOR", "connected_seconds", seconds),
    field("RTT", "rtt_ms", milliseconds),
    field("LAST BEAT", "last_beat_age_seconds", seconds),
    Column("DIGEST", lambda row: _digest({"peer": row})),
    field("CLOCK", "clock_offset_ms", milliseconds),
    Column("ERROR", lambda row: text((row.get("last_error") or {}).get("message"))),
    field("DIALLED", "dialled", wide=True),
    field("SENT", "bytes_sent", size, wide=True),
    field("RECEIVED", "bytes_received", size, wide=True),
    field("INSTANCE", "instance", wide=True),
    field("SOFTWARE", "software", wide=True),
    field("URL", "url", wide=True),
)

STATUS: tuple[Column, ...] = (
    *(column for column in CLUSTERS if not column.wide and column.title != "HEAD AGE"),
    Column("LINK", _link),
    field("RTT", "peer.rtt_ms", milliseconds),
    Column("DIGEST", _digest),
    *(
        replace(column, wide=True)
        for column in CLUSTERS
        if column.wide or column.title == "HEAD AGE"
    ),
)
"""Rows are CLUSTERs, each with its PEER as ``peer`` (None where there is none)."""

SERVICES: tuple[Column, ...] = (
    field("NAMESPACE", "namespace"),
    field("SERVICE", "service"),
    field("CLUSTER", "cluster"),
    field("EXPORTED", "exported"),
    field("READY", "ready", right=True),
    field("ENDPOINTS", "endpoints", right=True),
)
"""Rows are one cluster of one service each."""

POLICIES: tuple[Column, ...] = (
    field("POLICY", "policy"),
    Column("CLUSTER", lambda row: text(row.get("cluster") or "all")),
    Column("SERVICE", lambda row: text(row.get("service") or "all")),
    field("SETTING", "setting"),
    field("BY", "by"),
    field("ORDER", "order", wide=True, right=True),
)

ENDPOINTS: tuple[Column, ...] = (
    field("NAMESPACE", "namespace"),
    field("SERVICE", "service"),
    Column("CLUSTER", tag_cluster),
    field("ADDRESS", "address"),
    Column("PORTS", lambda row: ports(row.get("ports"))),
    Column("STATE", state),
    field("ZONE", "zone", wide=True),
    field("NODE", "node", wide=True),
    field("POD", "pod", wide=True),
    field("HOSTNAME", "hostname", wide=True),
    field("TAG", "tag", wide=True),
)


def status_rows(clusters: Sequence[Row], peers: Sequence[Row]) -> list[Row]:
    """One row per cluster with its peer; peers that no cluster is known of come last."""
    by_name = {peer.get("cluster"): peer for peer in peers}
    rows: list[Row] = [{**row, "peer": by_name.get(row.get("cluster"))} for row in clusters]
    known = {row.get("cluster") for row in clusters}
    rows += [
        {"cluster": name, "state": "unknown", "peer": peer}
        for name, peer in by_name.items()
        if name not in known
    ]
    return rows


def service_rows(services: Sequence[Row]) -> list[Row]:
    """One row per (service, cluster)."""
    return [
        {"namespace": row.get("namespace"), "service": row.get("service"), **cluster}
        for row in services
        for cluster in row.get("clusters") or []
    ]
