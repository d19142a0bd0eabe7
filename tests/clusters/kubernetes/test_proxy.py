"""Which way a call to the API server goes (kubernetes.md W15)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.kubernetes.proxy import is_exempt, proxy_for

PROXY = "http://192.0.2.99:3128"
LIST = "10.96.0.0/12,.svc,.cluster.local"


def test_case_c15_an_address_within_an_exempt_network_goes_direct() -> None:
    environ = {"HTTPS_PROXY": PROXY, "NO_PROXY": LIST}

    assert proxy_for("https://10.96.0.1", None, environ) is None
    assert proxy_for("https://kubernetes.default.svc:443", None, environ) is None
    assert proxy_for("https://192.0.2.7:6443", None, environ) == PROXY


def test_the_kubeconfigs_proxy_counts_before_everything() -> None:
    assert proxy_for("https://10.96.0.1", "http://p:1", {"no_proxy": "*"}) == "http://p:1"


def test_lower_case_wins_even_when_empty() -> None:
    upper = {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}

    assert proxy_for("https://api.test", None, upper) is None
    assert proxy_for("https://api.test", None, {**upper, "no_proxy": ""}) == PROXY
    assert proxy_for("https://api.test", None, {"HTTPS_PROXY": PROXY, "https_proxy": ""}) is None
    assert proxy_for(
        "https://api.test", None, {"https_proxy": "q:8", **upper, "no_proxy": "x"}
    ) == ("http://q:8")


def test_the_scheme_chooses_the_variable() -> None:
    environ = {"http_proxy": "http://a:1", "https_proxy": "http://b:2"}

    assert proxy_for("http://api.test", None, environ) == "http://a:1"
    assert proxy_for("https://api.test", None, environ) == "http://b:2"
    assert proxy_for("https://api.test", None, {"http_proxy": "http://a:1"}) is None


@pytest.mark.parametrize(
    "server", ["https://localhost:6443", "https://127.0.0.9", "https://[::1]:6443"]
)
def test_loopback_goes_direct(server: str) -> None:
    assert proxy_for(server, None, {"https_proxy": PROXY}) is None


@pytest.mark.parametrize(
    ("host", "port", "no_proxy", "exempt"),
    [
        ("api.test", 443, "*", True),
        ("api.test", 443, "", False),
        ("api.test", 443, "api.test", True),
        ("API.Test.", 443, " x , Api.TEST ", True),
        ("a.api.test", 443, "api.test", True),
        ("notapi.test", 443, "api.test", False),
        ("a.api.test", 443, ".api.test", True),
        ("api.test", 443, ".api.test", False),
        ("a.api.test", 443, "*.api.test", True),
        ("api.test", 6443, "api.test:6443", True),
        ("api.test", 443, "api.test:6443", False),
        ("api.test", 443, "api.test:https", True),
        ("192.0.2.1", 443, "192.0.2.1", True),
        ("192.0.2.1", 443, "192.0.2.1:443", True),
        ("192.0.2.1", 443, "192.0.2.1:80", False),
        ("192.0.2.11", 443, "2.11", False),
        ("192.0.2.1", 443, "192.0.2.0/24", True),
        ("192.0.3.1", 443, "192.0.2.7/24", False),
        ("api.test", 443, "192.0.2.0/24", False),
        ("192.0.2.1", 443, "not/anetwork", False),
        ("2001:db8::1", 443, "2001:0DB8::1", True),
        ("2001:db8::1", 443, "[2001:db8::1]:443", True),
        ("2001:db8::1", 443, "[2001:db8::1]:80", False),
        ("2001:db8::1", 443, "[2001:db8::1]", True),
        ("2001:db8::1", 443, "2001:db8::/32", True),
        ("2001:db8::1", 443, "192.0.2.0/24", False),
        ("api.test", 443, "192.0.2.1", False),
    ],
)
def test_a_list_names_servers_in_every_usual_way(
    host: str, port: int, no_proxy: str, *, exempt: bool
) -> None:
    assert is_exempt(host, port, no_proxy) is exempt


@given(st.text(), st.text())
def test_no_list_raises(host: str, no_proxy: str) -> None:
    assert is_exempt(host, 443, no_proxy) in {True, False}
