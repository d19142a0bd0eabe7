"""Token files and credential plugins (kubernetes.md W14)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from clusters.kubernetes.credentials import CredentialsError, read_token, run_plugin
from clusters.kubernetes.kubeconfig import Access, ExecPlugin
from tests.integration.scripted_api import eventually
from tests.support.clock import FakeClock

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
VERSION = "client.authentication.k8s.io/v1"


def test_a_token_is_read_without_its_newline(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("tok-1\n", encoding="ascii")

    assert read_token(tmp_path / "token") == "tok-1"


@pytest.mark.parametrize("content", [b"", b"\n", b"a b", b"\xff\xfe"])
def test_a_file_without_one_token_is_an_error_without_its_content(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "token").write_bytes(content)

    with pytest.raises(CredentialsError) as raised:
        read_token(tmp_path / "token")
    assert raised.value.code == "api_token_unreadable"
    assert raised.value.__cause__ is None or "a b" not in str(raised.value)


def test_a_missing_token_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="FileNotFoundError"):
        read_token(tmp_path / "token")


def plugin(code: str, **options: Any) -> ExecPlugin:
    return ExecPlugin((sys.executable, "-c", code), VERSION, **options)


def saying(status: object) -> ExecPlugin:
    output = json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": status})
    return plugin(f"print({output!r})")


async def run(plugin: ExecPlugin, access: Access | None = None) -> Any:
    return await run_plugin(plugin, access or Access("https://api.test"), FakeClock(), os.environ)


async def test_a_plugin_gives_a_token_with_its_end() -> None:
    credential = await run(saying({"token": "tok ", "expirationTimestamp": "2025-12-02T07:00:00Z"}))

    assert credential.token == "tok"
    assert credential.expires_ns == 1_764_658_800_000_000_000
    assert "tok" not in repr(credential).replace("token", "")


async def test_a_plugin_may_give_a_certificate() -> None:
    credential = await run(saying({"clientCertificateData": "C", "clientKeyData": "K"}))

    assert (credential.token, credential.certificate, credential.key) == (None, "C", "K")
    assert credential.expires_ns is None


@pytest.mark.parametrize("inline", [False, True])
async def test_a_plugin_is_told_about_the_cluster_and_its_own_environment(
    tmp_path: Path, *, inline: bool
) -> None:
    (tmp_path / "ca").write_bytes(b"CA")
    access = Access(
        "https://api.test",
        authority=b"CA" if inline else tmp_path / "ca",
        verify=False,
        server_name="name",
        proxy_url="http://p:1",
    )
    code = (
        "import json, os;"
        "told = os.environ['KUBERNETES_EXEC_INFO'] + os.environ['MINE'];"
        "print(json.dumps({'status': {'token': told.replace(' ', '')}}))"
    )
    credential = await run(plugin(code, wants_cluster=True, env={"MINE": "!"}), access)

    told = json.loads(credential.token.removesuffix("!"))
    assert told["apiVersion"] == VERSION
    assert told["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://api.test",
            "certificate-authority-data": "Q0E=",
            "insecure-skip-tls-verify": True,
            "tls-server-name": "name",
            "proxy-url": "http://p:1",
        },
    }


async def test_a_plugin_may_be_told_of_a_plain_cluster() -> None:
    code = (
        "import json, os;"
        "info = os.environ['KUBERNETES_EXEC_INFO'].replace(' ', '')\n"
        "print(json.dumps({'status': {'token': info}}))"
    )
    credential = await run(plugin(code, wants_cluster=True))

    assert json.loads(credential.token)["spec"]["cluster"] == {"server": "https://api.test"}


async def test_case_c14_a_failing_plugin_is_told_with_200_bytes_and_no_token() -> None:
    code = f"import sys; sys.stderr.write('no login: {JWT} ' + 'x' * 900); sys.exit(1)"
    with pytest.raises(CredentialsError) as raised:
        await run(plugin(code))

    assert raised.value.code == "api_credential_plugin_failed"
    assert "exit status 1: no login: [hidden]" in raised.value.message
    assert JWT not in str(raised.value)
    assert raised.value.message.count("x") < 200


@pytest.mark.parametrize(
    "status",
    [
        None,
        7,
        {},
        {"token": ""},
        {"clientCertificateData": "C"},
        {"token": "t", "expirationTimestamp": "soon"},
    ],
)
async def test_a_plugin_that_says_nothing_usable_failed(status: object) -> None:
    with pytest.raises(CredentialsError, match="no ExecCredential"):
        await run(saying(status))


async def test_a_plugins_output_is_never_shown() -> None:
    with pytest.raises(CredentialsError) as raised:
        await run(plugin("print('s3cr3t but no JSON')"))

    assert "s3cr3t" not in str(raised.value)


async def test_a_plugin_that_is_not_there_is_named() -> None:
    with pytest.raises(CredentialsError, match="no-such-plugin: cannot be started"):
        await run(ExecPlugin(("/nowhere/no-such-plugin",), VERSION))


async def test_a_plugin_that_hangs_is_ended(tmp_path: Path) -> None:
    clock = FakeClock()
    started = tmp_path / "started"
    code = f"import pathlib, time; pathlib.Path({str(started)!r}).touch(); time.sleep(600)"
    task = asyncio.create_task(
        run_plugin(plugin(code), Access("https://api.test"), clock, os.environ)
    )
    await eventually(started.exists)
    clock.advance(61)
    with pytest.raises(CredentialsError, match="still running after 60 s"):
        await task
