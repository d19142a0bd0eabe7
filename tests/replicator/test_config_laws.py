"""Any text, any value anywhere, any environment: a configuration or one configuration error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from replicator.config import describe, parse_config
from replicator.config_keys import KEYS, variable
from replicator.errors import ConfigError

FILE = Path("/etc/mesh/agent.yaml")
WORDS = st.sampled_from(
    [
        *("prod", "a", "kubernetes", "directory", "simulated", "none", "mcs", "endpointslices"),
        *(
            "0.0.0.0:7443",
            "127.0.0.1:1",
            "unix:/x",
            "https://b:1",
            "60s",
            "1MiB",
            "all",
            "keep",
            "*",
        ),
        *("", "~", "../x", "[", "{a: b}", "5", "null"),
    ]
)
SCALARS = (
    WORDS
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
)
KNOWN = st.sampled_from(sorted({part for key in KEYS for part in key.split(".")}))
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KNOWN | st.text(max_size=5), inner, max_size=4)
        | st.fixed_dictionaries({"cluster": WORDS, "url": WORDS})
    ),
    max_leaves=10,
)
ENVIRONMENTS = st.dictionaries(
    st.sampled_from([variable(key) for key in KEYS])
    | st.text(max_size=5).map("REPLICATOR_".__add__),
    WORDS | st.text(max_size=8),
    max_size=3,
)


def check(data: bytes, environ: dict[str, str]) -> None:
    """Read, and if it is a configuration, read again what is shown of it."""
    try:
        config = parse_config(data, FILE, environ)
    except ConfigError as error:
        told = (error.code, error.cure, str(error).count("\n"))
    else:
        again = parse_config(yaml.safe_dump(describe(config)).encode(), FILE, {})
        assert describe(again) == describe(config)
        return
    assert all(told[:2])
    assert told[2] == 0


@given(st.binary(max_size=120), ENVIRONMENTS)
def test_any_bytes(data: bytes, environ: dict[str, str]) -> None:
    check(data, environ)


@given(st.text(alphabet=st.sampled_from("clusterpod: \n-[]{}&*!|>'\"#%@,?\t0~"), max_size=80))
def test_any_text_that_looks_like_yaml(text: str) -> None:
    check(text.encode(), {})


@given(st.dictionaries(KNOWN, VALUES, max_size=6), ENVIRONMENTS)
def test_any_values_under_known_keys(values: dict[str, Any], environ: dict[str, str]) -> None:
    document = {"clusterset": "prod", "cluster": "us-east-1", **values}
    check(yaml.safe_dump(document, default_flow_style=True).encode(), environ)


@given(st.sampled_from(sorted(KEYS)), VALUES)
def test_any_value_at_any_place(key: str, value: Any) -> None:
    document: dict[str, Any] = {"clusterset": "prod", "cluster": "us-east-1"}
    inner, *parts = document, *key.split(".")
    for part in parts[:-1]:
        inner = inner.setdefault(part, {})
    inner[parts[-1]] = value
    check(yaml.safe_dump(document).encode(), {})
