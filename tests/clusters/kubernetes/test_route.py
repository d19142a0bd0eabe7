"""Secrets stay out of what people read."""

from __future__ import annotations

from clusters.kubernetes.route import Route, hide_tokens

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"


def test_the_present_token_is_hidden_from_texts_and_bodies() -> None:
    route = Route("https://api.test", headers={"Authorization": "Bearer s3cr3t"})

    assert route.redact("no: s3cr3t!") == "no: [hidden]!"
    assert route.redact_bytes(b"\xff s3cr3t") == b"\xff [hidden]"
    assert "s3cr3t" not in repr(route)


def test_anything_like_a_json_web_token_is_hidden() -> None:
    assert hide_tokens(f"got {JWT} here") == "got [hidden] here"


def test_a_short_word_is_no_secret() -> None:
    assert Route("s", headers={"Authorization": "Bearer a"}).redact("banana") == "banana"


def test_a_proxys_password_is_hidden() -> None:
    route = Route("https://api.test", proxy="http://me:pa55@proxy.test:3128")

    assert route.where == "https://api.test through proxy proxy.test:3128"
    assert route.redact("at pa55") == "at [hidden]"
    assert "pa55" not in repr(route)


def test_a_proxy_without_a_port_uses_the_usual_one() -> None:
    assert Route("s", proxy="http://p.test").where == "s through proxy p.test:80"
    assert Route("s").where == "s"
