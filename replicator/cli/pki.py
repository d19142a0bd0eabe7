"""``replicator pki init|issue|check``: certificates of a clusterset."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from replicator.cli.output import emit, say, warn
from replicator.errors import NotGood
from replicator.pki import (
    AUTHORITY_DAYS,
    CLUSTER_DAYS,
    Report,
    check,
    create_ca,
    issue,
    load_authority,
    save_authority,
    save_pair,
)
from replicator.pki_check import rfc3339

_LONGEST_DAYS = 36500


class ReportFormat(StrEnum):
    """How ``pki check`` prints what it found."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


_Days = Annotated[
    int, typer.Option("--days", min=1, max=_LONGEST_DAYS, help="How long it is valid.")
]


def make_authority(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Gets ca.crt and ca.key.")],
    clusterset: Annotated[
        str, typer.Option("--clusterset", metavar="NAME", help="The clusterset it issues for.")
    ],
    days: _Days = AUTHORITY_DAYS,
) -> None:
    """Make an authority that issues the certificates of one clusterset."""
    save_authority(create_ca(clusterset, datetime.now(UTC), days), folder)
    say(f"made {folder / 'ca.crt'} and {folder / 'ca.key'}; keep the key to yourself")


def issue_pair(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Gets tls.crt, tls.key and ca.crt.")
    ],
    authority: Annotated[
        Path, typer.Option("--ca", metavar="DIR", help="Folder of the authority.")
    ],
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="ID", help="The cluster it speaks for.")
    ],
    host: Annotated[
        list[str],
        typer.Option("--host", metavar="HOST", help="Name or IP address it is dialled at."),
    ],
    clusterset: Annotated[
        str | None,
        typer.Option("--clusterset", metavar="NAME", help="If the authority does not name one."),
    ] = None,
    days: _Days = CLUSTER_DAYS,
) -> None:
    """Issue a certificate and key for one cluster; never overwrites one."""
    now = datetime.now(UTC)
    issuer = load_authority(authority, now, clusterset)
    issued = issue(issuer, cluster, host, now, days)
    save_pair(issued, issuer, folder)
    say(f"made {folder / 'tls.crt'}, valid until {rfc3339(issued.certificate.not_valid_after_utc)}")


def _tell(report: Report, now: datetime) -> None:
    if report.good:
        days = (report.expires_at - now).days
        who = "trust bundle" if report.identity is None else str(report.identity)
        say(f"{report.file} is good: {who}, until {rfc3339(report.expires_at)} ({days} days)")
    for finding in report.findings:
        say(f"{report.file}: {finding.message}; {finding.cure}")


def check_files(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A certificate or a trust bundle, PEM.")
    ],
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="Its key [beside it: NAME.key]."),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option("--ca", metavar="FILE", help="The trust bundle [beside it: ca.crt]."),
    ] = None,
    output: Annotated[
        ReportFormat, typer.Option("--output", "-o", help="Form of the output.")
    ] = ReportFormat.TABLE,
) -> None:
    """Say what peers refuse about a certificate, or will within 72 hours; then exit 1."""
    now = datetime.now(UTC)
    beside_key, beside_bundle = file.with_suffix(".key"), file.with_name("ca.crt")
    key = key or (beside_key if beside_key.exists() else None)
    bundle = bundle or (beside_bundle if beside_bundle.exists() else None)
    report = check(file, now, key=key, bundle=bundle)
    if output is ReportFormat.TABLE:
        _tell(report, now)
    else:
        emit(report.document(now), output.value)
    if report.kind == "certificate":
        for part, path, option in (("key", key, "--key"), ("chain", bundle, "--ca")):
            if path is None:
                warn(f"the {part} was not checked; name it with {option} FILE")
    if not report.good:
        message = f"{file}: {len(report.findings)} found"
        raise NotGood(message)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Certificates: make an authority, issue, check.", no_args_is_help=True)
    group.command("init")(make_authority)
    group.command("issue")(issue_pair)
    group.command("check")(check_files)
    app.add_typer(group, name="pki")
