"""The configuration: every key, every default, and one clear error for everything that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from replicator.config import Config, HostPort, Peer, describe, load_config, parse_config
from replicator.config_keys import KEYS, variable
from replicator.errors import ConfigError

FILE = Path("/etc/mesh/agent.yaml")
SHORTEST = "clusterset: prod\ncluster: us-east-1\n"
WHOLE = """\
clusterset: prod
cluster: us-east-1
region: us-east
listen: 0.0.0.0:7443
operator: 127.0.0.1:7480
health: 0.0.0.0:7481
state: /var/lib/replicator
peers:
  - {cluster: eu-west-1, url: https://eu-west-1.mesh.example:7443}
tls: {certificate: tls.crt, key: tls.key, trust_bundle: ca.crt}
source:
  kind: kubernetes
  kubeconfig: null
  context: null
  export: service-export
  namespaces: {include: ["*"], exclude: [kube-system]}
target: {mode: endpointslices}
stale: {policy: keep, after: 60s}
"""


def read(text: str | bytes, **environ: str) -> Config:
    """The configuration in ``text``, as if it stood in ``FILE``."""
    data = text.encode() if isinstance(text, str) else text
    return parse_config(data, FILE, environ)


def read_with(lines: str, **environ: str) -> Config:
    """The shortest configuration and ``lines``."""
    return read(SHORTEST + lines, **environ)


def refused(text: str | bytes, **environ: str) -> ConfigError:
    """The error that ``text`` raises: one line with a cure."""
    with pytest.raises(ConfigError) as caught:
        read(text, **environ)
    assert caught.value.cure
    assert "\n" not in str(caught.value)
    return caught.value


def test_the_documented_configuration_is_read() -> None:
    config = read(WHOLE)
    assert (config.clusterset, config.cluster, config.region) == ("prod", "us-east-1", "us-east")
    assert config.listen == HostPort("0.0.0.0", 7443)
    assert config.operator == "127.0.0.1:7480"
    assert config.health == HostPort("0.0.0.0", 7481)
    assert config.state == Path("/var/lib/replicator")
    assert config.peers == (Peer("eu-west-1", "https://eu-west-1.mesh.example:7443"),)
    assert config.tls.certificate == Path("/etc/mesh/tls.crt")
    assert config.tls.key == Path("/etc/mesh/tls.key")
    assert config.tls.trust_bundle == Path("/etc/mesh/ca.crt")
    assert (config.source.kind, config.source.export) == ("kubernetes", "service-export")
    assert (config.source.kubeconfig, config.source.context) == (None, None)
    assert config.source.namespaces.include == ("*",)
    assert config.source.namespaces.exclude == ("kube-system",)
    assert config.target.mode == "endpointslices"
    assert (config.stale.policy, config.stale.after) == ("keep", 60.0)
    assert (config.stale.withdraw_after, config.stale.withdraw_last) == (3600.0, False)
    assert (config.limits.frame, config.limits.entry) == (1 << 20, 1 << 16)


def test_only_the_two_names_must_be_given() -> None:
    config = read(SHORTEST)
    whole = describe(read(WHOLE))
    assert describe(config) == {**whole, "region": "us-east-1", "peers": []}


@pytest.mark.parametrize("text", [WHOLE, SHORTEST])
@pytest.mark.parametrize(
    "write", [lambda t: t.replace("\n", "\r\n").encode(), lambda t: b"\xef\xbb\xbf" + t.encode()]
)
def test_crlf_and_a_byte_order_mark_change_nothing(text: str, write: Any) -> None:
    assert read(write(text)) == read(text)


@pytest.mark.parametrize(
    ("lines", "mode"),
    [
        ("", "endpointslices"),
        ("target: {path: out}", "endpointslices"),
        ("source: {kind: directory, path: in}", "none"),
        ("source: {kind: directory, path: in}\ntarget: {path: out}", "directory"),
        ("source: {kind: simulated}", "none"),
        ("source: {kind: simulated}\ntarget: {path: out}", "directory"),
        ("target: {mode: none}", "none"),
        ("target: {mode: directory, path: out}", "directory"),
    ],
)
def test_the_target_left_out_follows_from_the_source(lines: str, mode: str) -> None:
    assert read_with(lines).target.mode == mode


@pytest.mark.parametrize(
    ("lines", "attribute", "value"),
    [
        ("health: null", "health", None),
        ("health: ~", "health", None),
        ("health: '[::1]:80'", "health", HostPort("::1", 80)),
        ("listen: '[::]:0'", "listen", HostPort("::", 0)),
        ("listen: mesh.example:1", "listen", HostPort("mesh.example", 1)),
        ("operator: localhost:1", "operator", "localhost:1"),
        ("operator: '[::1]:1'", "operator", "[::1]:1"),
        ("operator: unix:/run/a.sock", "operator", "unix:/run/a.sock"),
        ("operator: unix:a.sock", "operator", "unix:/etc/mesh/a.sock"),
        ("state: ../state", "state", Path("/etc/state")),
        ("region: Frankfurt (west)", "region", "Frankfurt (west)"),
        ("peers: []", "peers", ()),
        ("peers: [{cluster: b, url: https://b/}]", "peers", (Peer("b", "https://b"),)),
        (
            "peers: [{cluster: b, url: 'https://[::1]:7'}]",
            "peers",
            (Peer("b", "https://[::1]:7"),),
        ),
    ],
)
def test_a_value_is_read(lines: str, attribute: str, value: object) -> None:
    assert getattr(read_with(lines), attribute) == value


@pytest.mark.parametrize(
    ("lines", "attribute", "value"),
    [
        ("path: /srv/x", "path", Path("/srv/x")),
        ("path: x/./y/../z", "path", Path("/etc/mesh/x/z")),
        ("path: ~/m", "path", Path("/home/me/m")),
        ("path: ~", "path", None),
        ("kubeconfig: k.yaml", "kubeconfig", Path("/etc/mesh/k.yaml")),
        ("context: me@there", "context", "me@there"),
        ("export: all", "export", "all"),
        ("export: annotated", "export", "annotated"),
        ("services: 3", "services", 3),
        ("endpoints: 4", "endpoints", 4),
        ("churn: 0", "churn", 0.0),
        ("churn: 2.5", "churn", 2.5),
        ("seed: 7", "seed", 7),
    ],
)
def test_a_key_of_the_source_is_read(lines: str, attribute: str, value: object) -> None:
    config = read_with(f"source:\n  {lines}\n", HOME="/home/me")
    assert getattr(config.source, attribute) == value


def test_durations_and_sizes_take_units() -> None:
    config = read_with("stale: {after: 1h30m}\nlimits: {frame: 512KiB, entry: 2KiB}")
    assert (config.stale.after, config.limits.frame, config.limits.entry) == (5400, 512 << 10, 2048)


def test_an_empty_section_is_as_left_out() -> None:
    assert read_with("source:\ntls:\nstale: {}\n") == read(SHORTEST)


NO_TEXT = "where a text belongs"
BAD_LINES = [
    ("cluster: Mesa", "cluster", "not a DNS label"),
    ("cluster: -a", "cluster", "not a DNS label"),
    ("cluster: a.b", "cluster", "not a DNS label"),
    ("cluster: ''", "cluster", "not a DNS label"),
    (f"cluster: {'a' * 64}", "cluster", "not a DNS label"),
    ("cluster: 123", "cluster", f"a number (123) {NO_TEXT}"),
    ("cluster: true", "cluster", f"true or false (True) {NO_TEXT}"),
    ("cluster: [a]", "cluster", f"a list {NO_TEXT}"),
    ("cluster: {a: b}", "cluster", f"a mapping {NO_TEXT}"),
    ("cluster:", "cluster", "nothing stands here"),
    ('cluster: "a\\nb"', "cluster", "do not print"),
    ('region: "a\\u202eb"', "region", "do not print"),
    ("region: ' '", "region", "empty"),
    ("listen: 7443", "listen", NO_TEXT),
    ("listen: ':7443'", "listen", "no host"),
    ("listen: 0.0.0.0", "listen", "no host and port"),
    ("listen: 0.0.0.0:65536", "listen", "port"),
    ("listen: ::1:7443", "listen", "brackets"),
    ("listen: unix:/x", "listen", "socket file"),
    ("listen: null", "listen", "nothing stands here"),
    ("health: off", "health", "no host and port"),
    ("health: false", "health", NO_TEXT),
    ("operator: 0.0.0.0:7480", "operator", "not loopback"),
    ("operator: mesh.example:7480", "operator", "not loopback"),
    ("operator: 'unix:'", "operator", "no path"),
    (f"operator: unix:/{'a' * 107}", "operator", "more than 107 bytes"),
    ("operator: null", "operator", "nothing stands here"),
    ("state: ''", "state", "empty path"),
    ("state: 5", "state", NO_TEXT),
    ('state: "a\\0b"', "state", "do not print"),
    ("state: ~/x", "state", "HOME"),
    ("peers: {}", "peers", "a mapping where a list belongs"),
    ("peers: none", "peers", "a text where a list belongs"),
    ("peers: null", "peers", "nothing stands here"),
    ("peers: [b]", "peers", "a text where a peer belongs"),
    ("peers: [{cluster: b}]", "peers", "no url"),
    ("peers: [{url: https://b}]", "peers", "no cluster"),
    ("peers: [{cluster: b, url: https://b, weight: 1}]", "peers", "unknown key 'weight'"),
    ("peers: [{cluster: B, url: https://b}]", "peers", "not a DNS label"),
    ("peers: [{cluster: b, url: http://b}]", "peers", "not an https URL"),
    ("peers: [{cluster: b, url: 'b:7443'}]", "peers", "not an https URL"),
    ("peers: [{cluster: b, url: 'https://'}]", "peers", "no host"),
    ("peers: [{cluster: b, url: 'https://b:0'}]", "peers", "no host and port"),
    ("peers: [{cluster: b, url: 'https://b:x'}]", "peers", "not a URL"),
    ("peers: [{cluster: b, url: 'https://b:99999'}]", "peers", "not a URL"),
    ("peers: [{cluster: b, url: 'https://[::1'}]", "peers", "not a URL"),
    ("peers: [{cluster: b, url: 'https://b/x'}]", "peers", "more than a host"),
    ("peers: [{cluster: b, url: 'https://b?x'}]", "peers", "more than a host"),
    ("peers: [{cluster: b, url: 'https://b#x'}]", "peers", "more than a host"),
    ("peers: [{cluster: b, url: 'https://u:p@b'}]", "peers", "more than a host"),
    ("peers: [{cluster: b, url: 'https://b c'}]", "peers", "no host"),
    ("peers: [{cluster: b, url: 5}]", "peers", NO_TEXT),
    ("tls: x", "tls", "a section belongs here"),
    ("tls: [a]", "tls", "a section belongs here"),
    ("tls: {key: null}", "tls.key", "nothing stands here"),
    ("source: {kind: kubernets}", "source.kind", "'kubernets' is not known"),
    ("source: {kind: null}", "source.kind", "nothing stands here"),
    ("source: {export: none}", "source.export", "not known"),
    ("source: {kind: directory}", "source.path", "missing for kind directory"),
    ("source: {kind: directory, path: null}", "source.path", "missing for kind directory"),
    ("source: {namespaces: ['*']}", "source.namespaces", "a section belongs here"),
    ("source: {namespaces: {include: '*'}}", "source.namespaces.include", "where a list belongs"),
    ("source: {namespaces: {include: [5]}}", "source.namespaces.include", NO_TEXT),
    ("source: {namespaces: {include: ['']}}", "source.namespaces.include", "match no namespace"),
    ("source: {namespaces: {include: []}}", "source.namespaces.include", "leave every namespace"),
    ("target: {namespaces: {include: []}}", "target.namespaces.include", "leave every namespace"),
    ("source: {namespaces: {exclude: [A]}}", "source.namespaces.exclude", "match no namespace"),
    ("source: {services: 0}", "source.services", "not between"),
    ("source: {services: 1.5}", "source.services", "where a whole number belongs"),
    ("source: {services: '3'}", "source.services", "where a whole number belongs"),
    ("source: {services: true}", "source.services", "where a whole number belongs"),
    ("source: {endpoints: 10001}", "source.endpoints", "not between"),
    ("source: {churn: -1}", "source.churn", "not between"),
    ("source: {churn: 5/s}", "source.churn", "where a number belongs"),
    ("source: {churn: .inf}", "source.churn", "where a number belongs"),
    ("source: {seed: -1}", "source.seed", "not between"),
    (
        "source: {kind: directory, path: a}\ntarget: {mode: mcs}",
        "target.mode",
        "mcs needs a Kubernetes source",
    ),
    ("target: {mode: file}", "target.mode", "not known"),
    ("target: {mode: directory}", "target.path", "missing for mode directory"),
    (
        "source: {kind: directory, path: a}\ntarget: {mode: endpointslices}",
        "target.mode",
        "needs a Kubernetes source",
    ),
    ("stale: {policy: drop}", "stale.policy", "not known"),
    ("stale: {policy: not_ready}", "stale.policy", "not known"),
    ("stale: {withdraw_last: 'no'}", "stale.withdraw_last", "where true or false belongs"),
    ("stale: {withdraw_after: 500ms}", "stale.withdraw_after", "not between"),
    (
        "stale: {policy: withdraw, after: 2h}",
        "stale.withdraw_after",
        "1h is shorter than stale.after",
    ),
    ("stale: {after: 60}", "stale.after", NO_TEXT),
    ("stale: {after: 60 s}", "stale.after", "not a duration"),
    ("stale: {after: 0s}", "stale.after", "not between"),
    ("stale: {after: 31d}", "stale.after", "not between"),
    ("limits: {frame: 1024}", "limits.frame", NO_TEXT),
    ("limits: {frame: 2MiB}", "limits.frame", "not between"),
    ("limits: {entry: lots}", "limits.entry", "not a size"),
    ("health: 0.0.0.0:7443", "health", "is also listen"),
    ("health: 127.0.0.1:7480", "health", "is also operator"),
    ("listen: 127.0.0.1:7480", "operator", "is also listen"),
    ("source: {kind: directory, path: a}\ntarget: {path: a}", "target.path", "overlap"),
    ("source: {kind: directory, path: a}\ntarget: {path: a/b}", "target.path", "overlap"),
    ("source: {kind: directory, path: a/b}\ntarget: {path: a}", "target.path", "overlap"),
    ("state: a\nsource: {kind: directory, path: a/}", "source.path", "overlap"),
]


@pytest.mark.parametrize(("lines", "key", "what"), BAD_LINES)
def test_a_bad_value_is_one_error_naming_file_line_key_and_cure(
    lines: str, key: str, what: str
) -> None:
    others = "clusterset: prod\n" + ("" if lines.startswith("cluster:") else "cluster: a\n")
    error = refused(others + lines + "\n")
    assert error.message.startswith(f"{FILE}:") or error.message.startswith(f"{FILE}: ")
    assert f" {key}: " in error.message
    assert what in error.message


@pytest.mark.parametrize(
    ("lines", "line"),
    [("region: 5", 3), ("tls:\n  key: 5", 4), ("tls: {key: 5}", 3), ("\n\nstate: []", 5)],
)
def test_an_error_names_the_line_of_the_value(lines: str, line: int) -> None:
    assert refused(SHORTEST + lines).message.startswith(f"{FILE}:{line}: ")


@pytest.mark.parametrize(
    ("lines", "unknown", "near"),
    [
        ("regoin: x", "regoin", "region"),
        ("Region: x", "Region", "region"),
        ("sources: {}", "sources", "source"),
        ("source: {knd: directory}", "source.knd", "source.kind"),
        ("source: {kube-config: x}", "source.kube-config", "source.kubeconfig"),
        ("source: {namespaces: {includes: []}}", "source.namespaces.includes", "include"),
        ("tls: {trust-bundle: x}", "tls.trust-bundle", "tls.trust_bundle"),
        ("mode: none", "mode", "target.mode"),
        ("source: {policy: keep}", "source.policy", "stale.policy"),
        ("tls.key: x", "tls.key", "tls.key"),
        ("'': x", "", ""),
        ("zzzzzzzzzz: 1", "zzzzzzzzzz", ""),
        ("<<: {region: x}", "<<", ""),
    ],
)
def test_an_unknown_key_is_an_error_naming_the_nearest_known(
    lines: str, unknown: str, near: str
) -> None:
    error = refused(SHORTEST + lines)
    assert error.code == "unknown_key"
    assert f"unknown key {unknown!r}" in error.message
    assert near in error.cure
    assert ("did you mean" in error.cure) == bool(near)


@pytest.mark.parametrize("missing", ["clusterset", "cluster"])
def test_a_name_that_is_missing_is_named(missing: str) -> None:
    text = "\n".join(line for line in SHORTEST.splitlines() if not line.startswith(missing + ":"))
    error = refused(text)
    assert error.message == f"{FILE}: {missing}: is missing"
    assert missing in error.cure


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "empty"),
        (b"# only a comment\n", "empty"),
        (b"null\n", "empty"),
        (b"- a\n- b\n", "mapping"),
        (b"text\n", "mapping"),
        (b"5\n", "mapping"),
        (b"cluster: \xff\xfe\n", "UTF-8"),
        ("cluster: a\n".encode("utf-16"), "UTF-8"),
        (b"cluster: a\ncluster: b\n", "twice"),
        (b"cluster: [\n", "broken YAML"),
        (b"a: 1\n---\nb: 2\n", "broken YAML"),
    ],
)
def test_a_file_that_is_no_configuration_is_one_error_naming_it(data: bytes, what: str) -> None:
    error = refused(data)
    assert error.message.startswith(f"{FILE}:")
    assert what in error.message


@pytest.mark.parametrize(
    ("peers", "code"),
    [
        ("[{cluster: us-east-1, url: https://a}]", "peer_is_self_or_duplicate"),
        (
            "[{cluster: b, url: https://a}, {cluster: b, url: https://b}]",
            "peer_is_self_or_duplicate",
        ),
        (
            "[{cluster: b, url: https://a}, {cluster: c, url: https://a/}]",
            "peer_is_self_or_duplicate",
        ),
        ("[{cluster: b, url: http://a}]", "bad_config"),
    ],
)
def test_a_peer_is_another_cluster_and_named_once(peers: str, code: str) -> None:
    assert refused(SHORTEST + f"peers: {peers}").code == code


def test_mode_mcs_is_for_a_kubernetes_source() -> None:
    assert read(SHORTEST + "target: {mode: mcs}").target.mode == "mcs"


@pytest.mark.parametrize(
    ("networks", "what", "cure"),
    [
        ("[10.0.0.0/8]", "a list where a mapping belongs", "CLUSTER"),
        ("{b: 10.0.0.0/8}", "b: a text where a list belongs", "[10.1.0.0/16]"),
        ("{b: []}", "b: an empty list would hide every address", "leave the cluster out"),
        ("{b: [10.0.0.1/8]}", "b: 10.0.0.1/8 has bits beyond its mask", "write 10.0.0.0/8"),
        ("{b: [10.0.0.0/33]}", "b: '10.0.0.0/33' is not a network", "[10.1.0.0/16]"),
        ("{b: [10.0.0.0/255.0.0.0]}", "b: '10.0.0.0/255.0.0.0' is not a network", "10.1.0.0/16"),
        ("{b: ['10.0.0.0/8 ']}", "b: '10.0.0.0/8 ' is not a network", "10.1.0.0/16"),
        ("{b: ['fe80::%eth0/64']}", "b: 'fe80::%eth0/64' is not a network", "10.1.0.0/16"),
        ("{b: [10.0.0.1]}", "b: '10.0.0.1' is not a network", "10.1.0.0/16"),
        ("{b: [7]}", "b: a number (7) where a text belongs", "10.1.0.0/16"),
        ("{B: [10.0.0.0/8]}", "'B' is not a DNS label", "a-z"),
        ("{us-east-1: [10.0.0.0/8]}", "us-east-1 is this cluster itself", "other clusters"),
    ],
)
def test_p40_networks_that_make_no_sense_are_named_with_the_cure(
    networks: str, what: str, cure: str
) -> None:
    error = refused(SHORTEST + f"networks: {networks}")
    assert error.message == f"{FILE}:3: networks: {what}"
    assert cure in error.cure


def test_p40_without_networks_nothing_is_bounded() -> None:
    assert read(SHORTEST).networks == {}


@pytest.mark.parametrize(
    ("limits", "what", "cure"),
    [
        ("{links: 0}", "limits.links: 0 is not between 1 and 100000", "whole number"),
        ("{links_per_peer: 3}", "limits.links_per_peer: 3 is not between 4 and 10000", "4"),
        ("{links: 7}", "limits.links_per_peer: 8 is more than limits.links (7)", "lower it"),
        (
            "{handshakes: 60}",
            "limits.handshakes_per_address: 64 is more than limits.handshakes (60)",
            "raise limits.handshakes",
        ),
    ],
)
def test_limits_that_make_no_sense_are_named_with_the_cure(
    limits: str, what: str, cure: str
) -> None:
    error = refused(SHORTEST + f"limits: {limits}")
    assert error.message.startswith(str(FILE))
    assert error.message.endswith(what)
    assert cure in error.cure


def test_without_a_lease_there_is_one_agent_a_cluster_and_it_is_no_peer_of_itself() -> None:
    assert not read(SHORTEST).lease.enabled
    peer = "peers: [{cluster: us-east-1, url: https://other}]"
    with pytest.raises(ConfigError, match=r"lease\.enabled") as caught:
        read(f"{SHORTEST}{peer}\n")
    assert caught.value.code == "peer_is_self_or_duplicate"
    shared = read(f"{SHORTEST}{peer}\nlease: {{enabled: true}}\n")
    assert [one.cluster for one in shared.peers] == ["us-east-1"]
    assert (shared.lease.namespace, shared.lease.name) == ("replicator-system", None)


def test_a_simulated_source_keeps_no_lease() -> None:
    with pytest.raises(ConfigError, match=r"lease\.enabled: a simulated source keeps no lease"):
        read(f"{SHORTEST}lease: {{enabled: true}}\n", REPLICATOR_SOURCE_KIND="simulated")


# ---- the environment ------------------------------------------------------------------------

EXAMPLES: dict[str, tuple[str, Any]] = {
    "clusterset": ("dev", "dev"),
    "cluster": ("b", "b"),
    "region": ("r 1", "r 1"),
    "listen": ("[::1]:5", "[::1]:5"),
    "operator": ("unix:x.sock", "unix:/etc/mesh/x.sock"),
    "health": ("null", None),
    "state": ("s", "/etc/mesh/s"),
    "peers": ("[{cluster: c, url: https://c}]", [{"cluster": "c", "url": "https://c"}]),
    "networks": (
        "{c: [10.1.0.0/16, '2001:DB8::/32'], '*': [10.0.0.0/8]}",
        {"c": ["10.1.0.0/16", "2001:db8::/32"], "*": ["10.0.0.0/8"]},
    ),
    "tls.certificate": ("a.crt", "/etc/mesh/a.crt"),
    "tls.key": ("a.key", "/etc/mesh/a.key"),
    "tls.trust_bundle": ("/b.crt", "/b.crt"),
    "source.kind": ("simulated", "simulated"),
    "source.path": ("m", "/etc/mesh/m"),
    "source.kubeconfig": ("k", "/etc/mesh/k"),
    "source.context": ("5", "5"),
    "source.export": ("all", "all"),
    "source.namespaces.include": ("[shop]", ["shop"]),
    "source.namespaces.exclude": ("[]", []),
    "source.services": ("3", 3),
    "source.endpoints": ("4", 4),
    "source.churn": ("0.5", 0.5),
    "source.duration": ("90s", "1m30s"),
    "source.seed": ("6", 6),
    "target.mode": ("none", "none"),
    "target.path": ("o", "/etc/mesh/o"),
    "target.namespaces.include": ("[shop, 'team-*']", ["shop", "team-*"]),
    "target.namespaces.exclude": ("[secret]", ["secret"]),
    "stale.policy": ("not-ready", "not-ready"),
    "stale.after": ("2m", "2m"),
    "stale.withdraw_after": ("90m", "1h30m"),
    "stale.withdraw_last": ("true", True),
    "limits.frame": ("256KiB", "256KiB"),
    "guard.least": ("7", 7),
    "guard.fresh_for": ("1m", "1m"),
    "limits.entry": ("1KiB", "1KiB"),
    "limits.links": ("2000", 2000),
    "limits.links_per_peer": ("16", 16),
    "limits.handshakes": ("300", 300),
    "limits.handshakes_per_address": ("30", 30),
    "lease.enabled": ("true", True),
    "lease.namespace": ("mesh", "mesh"),
    "lease.name": ("mesh-a", "mesh-a"),
}


def test_there_is_an_example_for_each_key() -> None:
    assert sorted(EXAMPLES) == sorted(KEYS)


@pytest.mark.parametrize("key", sorted(EXAMPLES))
def test_every_key_is_also_read_from_the_environment(key: str) -> None:
    text, shown = EXAMPLES[key]
    kind = {} if key == "source.kind" else {"REPLICATOR_TARGET_MODE": "none"}
    found: Any = describe(read(SHORTEST, **{**kind, variable(key): text}))
    for part in key.split("."):
        found = found[part]
    assert found == shown


def test_the_environment_wins_over_the_file() -> None:
    assert read_with("region: a", REPLICATOR_REGION="b").region == "b"


def test_an_empty_variable_is_not_set() -> None:
    assert read_with("region: a", REPLICATOR_REGION="").region == "a"


def test_a_variable_may_give_what_the_file_lacks() -> None:
    assert read("cluster: a\n", REPLICATOR_CLUSTERSET="prod").clusterset == "prod"


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("REPLICATOR_CLUSTER", "A", "REPLICATOR_CLUSTER: cluster: 'A' is not a DNS label"),
        ("REPLICATOR_PEERS", "[", "REPLICATOR_PEERS:1: broken YAML"),
        ("REPLICATOR_PEERS", "\udcff", "REPLICATOR_PEERS:1: not UTF-8"),
        ("REPLICATOR_PEERS", "null", "REPLICATOR_PEERS: peers: nothing stands here"),
        ("REPLICATOR_STALE_AFTER", "60", "REPLICATOR_STALE_AFTER: stale.after: '60'"),
        ("REPLICATOR_SOURCE_SEED", "x", "REPLICATOR_SOURCE_SEED: source.seed: a text"),
        ("REPLICATOR_LISTEN", "null", "REPLICATOR_LISTEN: listen: 'null' is not an address"),
        ("REPLICATOR_STATE", "\udcff", "REPLICATOR_STATE: state: '\\udcff' holds characters"),
    ],
)
def test_an_error_names_the_variable(name: str, text: str, what: str) -> None:
    assert refused(SHORTEST, **{name: text}).message.startswith(what)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("REPLICATOR_SOURC_KIND", "REPLICATOR_SOURCE_KIND"),
        ("REPLICATOR_TLS_KEYS", "REPLICATOR_TLS_KEY"),
        ("REPLICATOR_QQQQQQ", ""),
        ("REPLICATOR_", ""),
    ],
)
def test_a_variable_that_names_no_key_is_an_error(name: str, near: str) -> None:
    error = refused(SHORTEST, **{name: "x"})
    assert error.code == "unknown_key"
    assert f"variable {name} " in error.message
    assert near in error.cure


@pytest.mark.parametrize(
    "name",
    [
        "REPLICATOR_AGENT",
        "REPLICATOR_E2E_KUBE",
        "REPLICATOR_PORT",
        "REPLICATOR_PORT_7443_TCP",
        "REPLICATOR_PORT_7443_TCP_ADDR",
        "REPLICATOR_SERVICE_HOST",
        "REPLICATOR_SERVICE_PORT",
        "REPLICATOR_SERVICE_PORT_HTTPS",
        "REPLICATOR_METRICS_SERVICE_HOST",
        "REPLICATOR_METRICS_PORT_7481_UDP_PROTO",
        "replicator_region",
        "MY_REPLICATOR_REGION",
    ],
)
def test_variables_of_others_are_left_alone(name: str) -> None:
    assert read(SHORTEST, **{name: "x"}) == read(SHORTEST)


# ---- files and showing ----------------------------------------------------------------------


def test_a_file_is_read_and_its_folder_is_where_paths_start(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    (folder / "agent.yaml").write_text(WHOLE, encoding="utf-8")
    config = load_config(folder / "agent.yaml", {})
    assert config.tls.key == folder / "tls.key"


def test_relative_paths_become_absolute_even_when_the_file_is_named_relatively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.yaml").write_text(SHORTEST, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert load_config(Path("agent.yaml"), {}).tls.key == tmp_path / "tls.key"


@pytest.mark.parametrize("name", ["nothing.yaml", ".", "a\0b"])
def test_a_file_that_cannot_be_read_is_one_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / name, {})
    assert "cannot read" in caught.value.message
    assert caught.value.cure


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        SHORTEST,
        SHORTEST + "health: null\noperator: unix:x\nstale: {after: 1500ms}\n",
        SHORTEST + "source: {kind: simulated, churn: 0.5}\nlimits: {entry: 1025B}\n",
        SHORTEST + "source: {kind: directory, path: a}\ntarget: {path: b}\n",
    ],
)
def test_what_is_shown_reads_back_as_the_same(text: str) -> None:
    config = read(text)
    assert read(yaml.safe_dump(describe(config))) == config
