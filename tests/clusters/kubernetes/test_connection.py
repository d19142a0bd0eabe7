"""The way to the API server while files and tokens change (kubernetes.md W14, W15)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog

from clusters.kubernetes.connection import ApiConnection
from clusters.kubernetes.credentials import CredentialsError
from clusters.kubernetes.kubeconfig import KubeconfigError
from tests.clusters.kubernetes.certificates import Authority
from tests.clusters.kubernetes.kubeconfigs import kubeconfig, write
from tests.support.clock import FakeClock

ENVIRON = {"PATH": os.environ.get("PATH", "")}


def connect(
    path: str | None, clock: FakeClock, environ: dict[str, str] | None = None, **options: Any
) -> ApiConnection:
    return ApiConnection.from_kubeconfig(
        path, None, clock=clock, environ=ENVIRON if environ is None else environ, **options
    )


async def token_of(connection: ApiConnection) -> str:
    route = await connection.route()
    return route.headers["Authorization"].removeprefix("Bearer ")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def swap(link: Path, content: str) -> None:
    """Replace a token as kubelets do: a new file behind a symlink that is swapped."""
    target = link.with_name(f"data-{content}")
    target.write_text(content, encoding="ascii")
    fresh = link.with_name("fresh")
    fresh.symlink_to(target)
    fresh.rename(link)


async def test_case_c14_a_token_file_is_read_anew_every_60_s(
    tmp_path: Path, clock: FakeClock
) -> None:
    swap(tmp_path / "token", "tok-1")
    connection = connect(write(tmp_path / "c", kubeconfig({"tokenFile": "token"})), clock)
    assert await token_of(connection) == "tok-1"

    swap(tmp_path / "token", "tok-2")
    clock.advance(59)
    assert await token_of(connection) == "tok-1"
    clock.advance(1)
    assert await token_of(connection) == "tok-2"


async def test_case_c14_a_refused_token_is_read_anew_at_once(
    tmp_path: Path, clock: FakeClock
) -> None:
    swap(tmp_path / "token", "tok-1")
    connection = connect(write(tmp_path / "c", kubeconfig({"tokenFile": "token"})), clock)
    refused = await connection.route()
    swap(tmp_path / "token", "tok-2")

    renewed = await connection.renew(refused)
    assert renewed.headers["Authorization"] == "Bearer tok-2"
    assert await connection.renew(refused) is renewed


async def test_a_pods_token_is_read_from_its_own_file(tmp_path: Path, clock: FakeClock) -> None:
    authority = Authority()
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    swap(tmp_path / "token", "tok-1")
    environ = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    connection = connect(None, clock, environ, service_account=tmp_path)

    route = await connection.route()
    assert (route.server, route.headers["Authorization"]) == (
        "https://10.96.0.1:443",
        "Bearer tok-1",
    )
    assert route.tls is not None
    assert route.tls.verify_mode is ssl.CERT_REQUIRED
    assert not route.tls.verify_flags & ssl.VERIFY_X509_STRICT


async def test_a_token_that_cannot_be_read_keeps_the_last_one(
    tmp_path: Path, clock: FakeClock
) -> None:
    swap(tmp_path / "token", "tok-1")
    connection = connect(write(tmp_path / "c", kubeconfig({"tokenFile": "token"})), clock)
    assert await token_of(connection) == "tok-1"
    (tmp_path / "token").unlink()
    clock.advance(60)

    with structlog.testing.capture_logs() as logs:
        assert await token_of(connection) == "tok-1"
    assert [one["event"] for one in logs] == ["api_credentials_kept"]
    assert "tok-1" not in json.dumps(logs)


async def test_a_token_that_was_refused_is_not_kept(tmp_path: Path, clock: FakeClock) -> None:
    swap(tmp_path / "token", "tok-1")
    connection = connect(write(tmp_path / "c", kubeconfig({"tokenFile": "token"})), clock)
    route = await connection.route()
    (tmp_path / "token").unlink()

    with pytest.raises(CredentialsError):
        await connection.renew(route)
    with pytest.raises(CredentialsError):
        await connection.route()


async def test_a_fixed_token_stays_until_the_kubeconfig_changes(
    tmp_path: Path, clock: FakeClock
) -> None:
    path = write(tmp_path / "c", kubeconfig({"token": "a"}))
    connection = connect(path, clock)
    first = await connection.route()
    clock.advance(61)
    assert await connection.route() is first

    write(tmp_path / "c", kubeconfig({"token": "b"}))
    clock.advance(61)
    assert await token_of(connection) == "b"


async def test_a_kubeconfig_that_breaks_keeps_the_last_way(
    tmp_path: Path, clock: FakeClock
) -> None:
    connection = connect(write(tmp_path / "c", kubeconfig({"token": "a"})), clock)
    await connection.check()
    first = await connection.route()
    (tmp_path / "c").write_text("{", encoding="ascii")
    clock.advance(61)
    assert await connection.route() is first
    (tmp_path / "c").unlink()
    clock.advance(61)
    assert await connection.route() is first


async def test_a_kubeconfig_that_is_unusable_is_told_at_the_start(
    tmp_path: Path, clock: FakeClock
) -> None:
    with pytest.raises(KubeconfigError):
        await connect(str(tmp_path / "none"), clock).check()


def plugin_config(folder: Path, code: str) -> str:
    section = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", code],
    }
    return write(folder / "c", kubeconfig({"exec": section}, server="http://api.test"))


def counting(folder: Path, end: str = "") -> str:
    """A plugin whose token counts its runs; its credential ends at ``end``."""
    log = folder / "runs"
    return (
        "import json, pathlib;"
        f"log = pathlib.Path({str(log)!r});"
        "runs = (log.read_text() if log.exists() else '') + 'x';"
        "log.write_text(runs);"
        f"print(json.dumps({{'status': {{'token': f'tok-{{len(runs)}}',"
        f"'expirationTimestamp': {end!r}}}}}))"
    )


async def test_a_plugin_runs_once_until_refused(tmp_path: Path, clock: FakeClock) -> None:
    connection = connect(plugin_config(tmp_path, counting(tmp_path)), clock)
    first, again = await asyncio.gather(connection.route(), connection.route())
    assert first is again
    clock.advance(3600)
    assert await token_of(connection) == "tok-1"

    renewed = await connection.renew(await connection.route())
    assert renewed.headers["Authorization"] == "Bearer tok-2"


async def test_a_plugin_runs_again_before_its_credential_ends(
    tmp_path: Path, clock: FakeClock
) -> None:
    end = "2025-12-02T07:00:00Z"  # one hour after the fake clock's start
    connection = connect(plugin_config(tmp_path, counting(tmp_path, end)), clock)
    assert await token_of(connection) == "tok-1"
    clock.advance(3500)
    assert await token_of(connection) == "tok-1"
    clock.advance(60)
    assert await token_of(connection) == "tok-2"


async def test_case_c14_a_failing_plugin_is_an_error_and_tried_again(
    tmp_path: Path, clock: FakeClock
) -> None:
    gate = tmp_path / "open"
    code = (
        "import pathlib, sys;"
        f"pathlib.Path({str(gate)!r}).exists() or sys.exit('locked');" + counting(tmp_path)
    )
    connection = connect(plugin_config(tmp_path, code), clock)
    await connection.check()
    with pytest.raises(CredentialsError, match="locked"):
        await connection.route()
    gate.touch()
    assert await token_of(connection) == "tok-1"


async def test_a_plugins_certificate_is_used_and_leaves_no_file(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    authority = Authority()
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    certificate, key = authority.issue("client")
    status = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}
    section = {
        "apiVersion": "v1",
        "command": sys.executable,
        "args": ["-c", f"print({json.dumps({'status': status})!r})"],
    }
    config = kubeconfig({"exec": section}, **{"certificate-authority": "ca.crt"})
    connection = connect(write(tmp_path / "c", config), clock)
    route = await connection.route()

    assert route.tls is not None
    assert not route.headers
    assert list(temporary.iterdir()) == []


async def test_a_plugins_broken_certificate_is_told_without_it(
    tmp_path: Path, clock: FakeClock
) -> None:
    status = {"clientCertificateData": "s3cr3t", "clientKeyData": "s3cr3t"}
    section = {
        "apiVersion": "v1",
        "command": sys.executable,
        "args": ["-c", f"print({json.dumps({'status': status})!r})"],
    }
    connection = connect(write(tmp_path / "c", kubeconfig({"exec": section})), clock)
    with pytest.raises(CredentialsError, match="credential plugin: certificate") as raised:
        await connection.route()
    assert "s3cr3t" not in str(raised.value)


def shown_to(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes | None:
    """The certificate that a client shows in a handshake in memory."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(back, there, server_hostname="127.0.0.1"),
        server.wrap_bio(there, back, server_side=True),
    ]
    open_ends = list(ends)
    while open_ends:
        for end in list(open_ends):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
                open_ends.remove(end)
    return ends[1].getpeercert(binary_form=True)


@pytest.mark.parametrize("in_files", [(), ("certificate",), ("key",)])
async def test_an_inline_pair_is_shown_and_lies_in_no_file(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, in_files: tuple[str, ...]
) -> None:
    """The library wrote keys to files that a killed agent left behind."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    authority = Authority()
    user: dict[str, Any] = {}
    pair = dict(zip(("certificate", "key"), authority.issue("client"), strict=True))
    for name, content in pair.items():
        user[f"client-{name}-data"] = base64.b64encode(content).decode()
    for name in in_files:
        (tmp_path / name).write_bytes(pair[name])
        user[f"client-{name}"] = name
        del user[f"client-{name}-data"]
    commented = "# Größe\n".encode() + authority.pem
    data = base64.b64encode(commented).decode()
    config = kubeconfig(user, **{"certificate-authority-data": data})
    connection = connect(write(tmp_path / "c", config), clock)
    route = await connection.route()
    clock.advance(61)

    assert (await connection.route()) is route
    assert list(temporary.iterdir()) == []
    assert route.tls is not None
    (tmp_path / "server.pem").write_bytes(b"".join(authority.issue("server")))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "server.pem")
    server.load_verify_locations(cadata=authority.pem.decode())
    server.verify_mode = ssl.CERT_REQUIRED
    server.verify_flags &= ~ssl.VERIFY_X509_STRICT
    shown = shown_to(server, route.tls)
    assert shown == ssl.PEM_cert_to_DER_cert(pair["certificate"].decode())
    assert list(temporary.iterdir()) == []


async def test_an_inline_pair_that_does_not_fit_is_told_without_it(
    tmp_path: Path, clock: FakeClock
) -> None:
    certificate, _ = Authority().issue("client")
    _, key = Authority().issue("client")
    user = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    with pytest.raises(KubeconfigError, match="certificates") as raised:
        await connect(write(tmp_path / "c", kubeconfig(user)), clock).check()
    assert "KEY-----" not in str(raised.value)


async def test_certificates_that_change_make_a_new_context(
    tmp_path: Path, clock: FakeClock
) -> None:
    authority = Authority()
    (tmp_path / "ca.crt").write_bytes(authority.pem)

    def issue() -> None:
        certificate, key = authority.issue("client")
        (tmp_path / "tls.crt").write_bytes(certificate)
        (tmp_path / "tls.key").write_bytes(key)

    issue()
    user = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    config = kubeconfig(user, **{"certificate-authority": "ca.crt"})
    connection = connect(write(tmp_path / "c", config), clock)
    first = await connection.route()
    clock.advance(61)
    assert (await connection.route()).tls is first.tls
    issue()
    clock.advance(61)
    assert (await connection.route()).tls is not first.tls


async def test_certificates_that_cannot_be_loaded_are_told(
    tmp_path: Path, clock: FakeClock
) -> None:
    (tmp_path / "ca.crt").write_text("nonsense", encoding="ascii")
    path = write(tmp_path / "c", kubeconfig({}, **{"certificate-authority": "ca.crt"}))
    with pytest.raises(KubeconfigError, match="certificates"):
        await connect(path, clock).check()


async def test_verification_can_be_left_out(tmp_path: Path, clock: FakeClock) -> None:
    path = write(
        tmp_path / "c",
        kubeconfig({}, server="https://api.test", **{"insecure-skip-tls-verify": True}),
    )
    route = await connect(path, clock).route()
    assert route.tls is not None
    assert route.tls.verify_mode is ssl.CERT_NONE


async def test_case_c15_the_decision_about_the_proxy_is_logged(
    tmp_path: Path, clock: FakeClock
) -> None:
    path = write(tmp_path / "c", kubeconfig({"token": "t0ken"}, server="https://10.96.0.1"))
    environ = {"HTTPS_PROXY": "http://me:pa55@192.0.2.99:3128", "NO_PROXY": "10.96.0.0/12"}
    with structlog.testing.capture_logs() as logs:
        direct = await connect(path, clock, environ).route()
        proxied = await connect(path, clock, {**environ, "no_proxy": ""}).route()

    assert direct.proxy is None
    assert proxied.proxy == "http://me:pa55@192.0.2.99:3128"
    assert [(one["proxied"], one["route"]) for one in logs] == [
        (False, "https://10.96.0.1"),
        (True, "https://10.96.0.1 through proxy 192.0.2.99:3128"),
    ]
    assert "pa55" not in json.dumps(logs)


async def test_a_proxy_we_do_not_speak_is_told(tmp_path: Path, clock: FakeClock) -> None:
    path = write(tmp_path / "c", kubeconfig({}, **{"proxy-url": "socks5://p.test:1"}))
    with pytest.raises(KubeconfigError, match="proxy"):
        await connect(path, clock).check()


async def test_a_builtin_provider_is_read_each_time(tmp_path: Path, clock: FakeClock) -> None:
    provider = {"name": "oidc", "config": {"id-token": "eyJhIjoxfQ.eyJhIjoxfQ.s"}}
    path = write(tmp_path / "c", kubeconfig({"auth-provider": provider}))
    connection = connect(path, clock)
    first = await connection.route()
    clock.advance(61)
    assert await connection.route() is not first
