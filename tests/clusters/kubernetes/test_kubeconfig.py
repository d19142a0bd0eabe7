"""What kubeconfigs and service accounts say."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.kubernetes.kubeconfig import KubeconfigError, read_kubeconfig, read_service_account
from tests.clusters.kubernetes.kubeconfigs import SERVER, kubeconfig, write

SECRET = "s3cr3t-t0ken"


async def test_a_token_is_a_fixed_header(tmp_path: Path) -> None:
    path = write(tmp_path / "config", kubeconfig({"token": f"{SECRET}\n"}))
    access = await read_kubeconfig(path, None)

    assert access.server == SERVER
    assert access.authorization == f"Bearer {SECRET}"
    assert access.files == (tmp_path / "config",)
    assert access.verify
    assert SECRET not in repr(access)


async def test_a_context_without_a_user_is_anonymous(tmp_path: Path) -> None:
    access = await read_kubeconfig(write(tmp_path / "config", kubeconfig()), None)

    assert access.authorization is None
    assert access.plugin is None


async def test_paths_start_from_the_kubeconfigs_folder(tmp_path: Path) -> None:
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (tmp_path / name).write_text(name, encoding="ascii")
    user = {
        "client-certificate": "tls.crt",
        "client-key": "tls.key",
        "tokenFile": "token",
        "exec": {"command": "./plugin", "apiVersion": "v1"},
    }
    config = kubeconfig(user, **{"certificate-authority": "ca.crt"})
    access = await read_kubeconfig(write(tmp_path / "config", config), None)

    assert access.authority == tmp_path / "ca.crt"
    assert access.certificate == tmp_path / "tls.crt"
    assert access.key == tmp_path / "tls.key"
    assert access.token_file == tmp_path / "token"
    assert access.plugin is not None
    assert access.plugin.command == (str(tmp_path / "plugin"),)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


async def test_inline_certificates_and_keys_become_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    user = {"client-certificate-data": encoded(b"pair"), "client-key-data": encoded(b"s3cr3t")}
    config = kubeconfig(user, **{"certificate-authority-data": encoded(b"authority")})
    access = await read_kubeconfig(write(tmp_path / "config", config), None)

    assert (access.authority, access.certificate, access.key) == (b"authority", b"pair", b"s3cr3t")
    assert "s3cr3t" not in repr(access)
    assert list(temporary.iterdir()) == []


async def test_inline_data_goes_before_a_file_and_nothing_inline_before_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "tls.crt").touch()
    user = {
        "client-certificate": "tls.crt",
        "client-certificate-data": "",
        "client-key": "no-such-file",
        "client-key-data": encoded(b"key"),
    }
    path = write(tmp_path / "config", kubeconfig(user, **{"certificate-authority-data": None}))
    access = await read_kubeconfig(path, None)

    assert (access.authority, access.certificate, access.key) == (
        None,
        tmp_path / "tls.crt",
        b"key",
    )


async def test_everything_about_the_cluster_is_read(tmp_path: Path) -> None:
    cluster: dict[str, Any] = {
        "proxy-url": "http://proxy.test:3128",
        "tls-server-name": "kubernetes",
        "insecure-skip-tls-verify": True,
    }
    access = await read_kubeconfig(write(tmp_path / "config", kubeconfig({}, **cluster)), None)

    assert access.proxy_url == "http://proxy.test:3128"
    assert access.server_name == "kubernetes"
    assert not access.verify


async def test_a_plugin_is_described_not_run(tmp_path: Path) -> None:
    section = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "no-such-plugin",
        "args": ["token", 7],
        "env": [{"name": "A", "value": "b"}],
        "provideClusterInfo": True,
    }
    path = write(tmp_path / "config", kubeconfig({"exec": section}))
    plugin = (await read_kubeconfig(path, None)).plugin

    assert plugin is not None
    assert plugin.command == ("no-such-plugin", "token", "7")
    assert plugin.env == {"A": "b"}
    assert plugin.wants_cluster


async def test_name_and_password_are_a_fixed_header(tmp_path: Path) -> None:
    path = write(tmp_path / "config", kubeconfig({"username": "me", "password": "pw"}))
    access = await read_kubeconfig(path, None)

    assert access.authorization == "Basic " + base64.b64encode(b"me:pw").decode()


async def test_a_builtin_provider_is_read_each_time(tmp_path: Path) -> None:
    header = base64.urlsafe_b64encode(b'{"a":1}').decode().rstrip("=")
    provider = {"name": "oidc", "config": {"id-token": f"{header}.{header}.sig"}}
    path = write(tmp_path / "config", kubeconfig({"auth-provider": provider}))

    assert (await read_kubeconfig(path, None)).volatile


async def test_the_context_can_be_chosen(tmp_path: Path) -> None:
    config = kubeconfig({"token": "a"})
    config["contexts"].append({"name": "y", "context": {"cluster": "d", "user": "u"}})
    config["clusters"].append({"name": "d", "cluster": {"server": "http://other.test"}})

    assert (await read_kubeconfig(write(tmp_path / "c", config), "y")).server == "http://other.test"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "contexts: 7",
        "{current-context: x}",
        "{contexts: [{name: x}], clusters: [], users: []}",
        "{current-context: z, contexts: [], clusters: [], users: []}",
        "{current-context: x, contexts: [{name: x, context: {cluster: c}}], clusters: []}",
        "{current-context: x, contexts: [{name: x, context: {cluster: c}}], clusters: [{name: c}]}",
        yaml.safe_dump(kubeconfig(server="")),
        yaml.safe_dump(
            {
                "current-context": "x",
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "gone"}}],
                "clusters": [{"name": "c", "cluster": {"server": "s"}}],
            }
        ),
    ],
)
async def test_anything_wrong_is_one_error_with_a_cure(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content, encoding="ascii")

    with pytest.raises(KubeconfigError, match="kubeconfig") as raised:
        await read_kubeconfig(str(path), None)
    assert raised.value.code == "bad_kubeconfig"
    assert raised.value.cure


@pytest.mark.parametrize(
    "user",
    [
        {"exec": {"command": "x"}},
        {"exec": {"apiVersion": "x"}},
        {"exec": {"command": "x", "apiVersion": "y", "env": [{"value": SECRET}]}},
        {"client-certificate": "missing"},
        {"client-key-data": f"{SECRET}!"},
        {"client-key-data": 7},
        {"auth-provider": {"name": "oidc", "config": {"id-token": SECRET}}},
        {"auth-provider": {"name": "oidc", "config": {"client-secret": SECRET}}},
        {"auth-provider": {"name": "oidc"}},
    ],
)
async def test_a_wrong_user_is_an_error_without_its_secrets(
    tmp_path: Path, user: dict[str, Any]
) -> None:
    path = write(tmp_path / "config", kubeconfig(user))

    with pytest.raises(KubeconfigError) as raised:
        await read_kubeconfig(path, None)
    assert SECRET not in str(raised.value)


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"no kubeconfig at .*nowhere"):
        await read_kubeconfig(str(tmp_path / "nowhere"), None)


def account(folder: Path) -> dict[str, str]:
    (folder / "token").write_text(SECRET, encoding="ascii")
    (folder / "ca.crt").write_text("ca", encoding="ascii")
    return {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_a_service_account_is_found_by_the_environment(tmp_path: Path) -> None:
    access = read_service_account(account(tmp_path), tmp_path)

    assert access.server == "https://10.96.0.1:443"
    assert access.token_file == tmp_path / "token"
    assert access.authority == tmp_path / "ca.crt"


def test_a_service_account_by_ipv6(tmp_path: Path) -> None:
    environ = {**account(tmp_path), "KUBERNETES_SERVICE_HOST": "fd00::1"}

    assert read_service_account(environ, tmp_path).server == "https://[fd00::1]:443"


def test_no_pod_is_told_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="no service account") as raised:
        read_service_account({}, tmp_path)
    assert "source.kubeconfig" in raised.value.cure


def test_the_usual_place_of_a_service_account_is_the_default() -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": ""}
    with pytest.raises(KubeconfigError):
        read_service_account(environ)


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_a_service_account_that_lacks_a_file_or_has_an_empty_one_is_told(
    tmp_path: Path, name: str
) -> None:
    environ = account(tmp_path)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(KubeconfigError, match=f"no service account: .*{name} is empty"):
        read_service_account(environ, tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(KubeconfigError, match=f"no service account: .*{name}: No such file"):
        read_service_account(environ, tmp_path)


def test_a_service_account_is_read_without_the_library_that_costs_a_pod_its_memory(
    tmp_path: Path,
) -> None:
    code = (
        "import sys, json, pathlib\n"
        "from clusters.kubernetes.kubeconfig import read_service_account\n"
        "read_service_account(json.loads(sys.argv[1]), pathlib.Path(sys.argv[2]))\n"
        "raise SystemExit('kubernetes_asyncio' in sys.modules)\n"
    )
    command = [sys.executable, "-c", code, json.dumps(account(tmp_path)), str(tmp_path)]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
