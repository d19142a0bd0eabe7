"""``replicator config check``: whether an agent could start with a configuration."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from replicator.cli.output import emit, say, warn
from replicator.config import Config, describe, load_config
from replicator.errors import ConfigError, PkiError
from replicator.identity import PeerIdentity
from replicator.pki import Report, check, check_bundle
from replicator.pki_check import rfc3339


class CheckFormat(StrEnum):
    """How ``config check`` prints a configuration that is good."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def check_certificate(config: Config, now: datetime) -> Report:
    """Check that the certificate is this cluster's, whole, and trusted by its own bundle.

    Raises :class:`~replicator.errors.PkiError` or :class:`~replicator.errors.ConfigError` for what
    would keep the agent from linking; the report holds what is not fatal yet.
    """
    tls = config.tls
    report = check(tls.certificate, now, key=tls.key, bundle=tls.trust_bundle)
    if report.kind != "certificate":
        message = f"tls.certificate: {tls.certificate} is an authority's certificate"
        raise PkiError(message, cure="name the cluster's own, tls.crt")
    for found in (report, check_bundle(tls.trust_bundle, now)):
        for finding in found.findings:
            if finding.fatal:
                message = f"{found.file}: {finding.message}"
                raise PkiError(message, cure=finding.cure, code=finding.code)
    own = PeerIdentity(config.clusterset, config.cluster)
    if report.identity != own:
        message = f"{tls.certificate} speaks for {report.identity}, the configuration for {own}"
        cure = "correct cluster and clusterset, or name the certificate of this cluster"
        raise ConfigError(message, cure=cure, code="identity_mismatch")
    return report


def check_config(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The agent.yaml of one cluster.")],
    output: Annotated[
        CheckFormat, typer.Option("--output", "-o", help="Form of the output.")
    ] = CheckFormat.TABLE,
) -> None:
    """Check a configuration, the environment's part included, and the certificate it names.

    Exit 0 when an agent can use it, 2 otherwise; reaches no cluster and no peer.
    """
    now = datetime.now(UTC)
    config = load_config(file, os.environ)
    report = check_certificate(config, now)
    for finding in report.findings:
        warn(f"warning: {report.file}: {finding.message}; {finding.cure}")
    if output is CheckFormat.TABLE:
        peers = ", ".join(sorted(peer.cluster for peer in config.peers)) or "none"
        say(f"{file} is good: {config.cluster} of {config.clusterset}, peers: {peers}")
        say(f"certificate until {rfc3339(report.expires_at)}")
    else:
        document = {"config": describe(config), "certificate": report.document(now)}
        emit(document, output.value)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="The configuration of an agent.", no_args_is_help=True)
    group.callback()(lambda: None)
    group.command("check")(check_config)
    app.add_typer(group, name="config")
