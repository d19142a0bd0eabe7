"""Texts to Kubernetes objects: YAML (also several documents), JSON, JSON lines, and Lists of them.

YAML is read as Kubernetes reads it: times stay texts, ``1:2:3`` is no number.  A ``List``, or a
typed list as an API server answers it, becomes its items, which take over kind and version where
they lack them.  Nothing is checked here but that each object is one; :func:`reference` says what an
object is called.

Anything else raises :class:`~clusters.errors.ManifestError` naming the source, the line and the
cure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from clusters.errors import ManifestError
from clusters.model import Manifest
from clusters.slice_names import is_dns_label, is_dns_name

DEFAULT_NAMESPACE = "default"
_DEEPEST_LIST = 4
_CURE = "give Kubernetes objects as YAML or JSON"
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_INTEGER = "tag:yaml.org,2002:int"
_YAML_FAULTS = (
    yaml.YAMLError,
    *(ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError),
)


class _Loader(_BASE):  # type: ignore[misc]  # the C loader is untyped
    """Safe YAML without the two scalar types that Kubernetes does not know."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if tag not in {_TIMESTAMP, _INTEGER}]
    for first, pairs in _BASE.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _INTEGER,
    re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)\Z", re.ASCII),
    list("-+0123456789"),
)


@dataclass(frozen=True, slots=True)
class Located:
    """One object and where it begins."""

    manifest: Manifest
    source: str
    line: int

    @property
    def place(self) -> str:
        """``source:line`` for messages."""
        return f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """What an object is called: ``Kind/namespace/name``."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """The form used in messages and in ``skipped``; without a namespace ``Kind/name``."""
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)


def reference(manifest: Manifest) -> Reference:
    """What ``manifest`` is called; an absent namespace is ``default``, as for kubectl.

    Raises :class:`ManifestError` naming the field when kind or name cannot be told.
    """
    kind = manifest.get("kind")
    if not isinstance(kind, str) or not kind:
        message = "an object has no kind"
        raise ManifestError(message, cure=_CURE)
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict):
        message = f"{kind[:80]!s} has no metadata"
        raise ManifestError(message, cure="give it metadata with a name")
    name = metadata.get("name")
    if not isinstance(name, str) or not is_dns_name(name):
        message = f"{kind[:80]}: metadata.name {_shown(name)} is not a DNS name"
        raise ManifestError(message, cure="give it a name of lower-case letters, digits, - and .")
    if kind == "Namespace":
        return Reference(kind, "", name)
    namespace = metadata.get("namespace")
    if namespace is None or namespace == "":
        namespace = DEFAULT_NAMESPACE
    if not isinstance(namespace, str) or not is_dns_label(namespace):
        message = f"{kind[:80]}/{name}: metadata.namespace {_shown(namespace)} is not a DNS label"
        raise ManifestError(message, cure="give it the name of a namespace")
    return Reference(kind, namespace, name)


def _shown(value: object) -> str:
    return ascii(value)[:80]


def parse_manifests(data: str | bytes, source: str) -> list[Located]:
    """All objects in a file's content, in order; an empty file has none.

    ``source`` names the file in messages.  Raises :class:`ManifestError` for anything unreadable:
    nothing of the file is returned then.
    """
    found: list[Located] = []
    for value, line in parse_documents(data, source):
        if value is not None:
            found += _expand(value, source, line)
    return found


def parse_documents(data: str | bytes, source: str) -> list[tuple[object, int]]:
    """(value, line) of each JSON or YAML document in a file's content; errors as above."""
    return _documents(_decode(data, source), source)


def _decode(data: str | bytes, source: str) -> str:
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _fault(source, line, "not UTF-8", "save the file as UTF-8") from error


def _fault(source: str, line: int, what: str, cure: str = _CURE) -> ManifestError:
    return ManifestError(f"{source}:{line}: {what}", cure=cure)


def _documents(text: str, source: str) -> list[tuple[object, int]]:
    """(value, line) of each document; what is no JSON is YAML, of which JSON is a part."""
    start = text.lstrip()
    if not start.startswith(("{", "[")):
        return list(_yaml_documents(text, source))
    try:
        return list(_json_documents(text))
    except json.JSONDecodeError as error:
        fault = _fault(source, error.lineno, f"broken JSON: {error.msg}")
    except (ValueError, RecursionError) as error:
        raise _fault(source, 1, "JSON with too many digits or levels") from error
    try:
        return list(_yaml_documents(text, source))
    except ManifestError as error:
        raise (fault if re.match(r'\{\s*["}]', start) else error) from error


def _json_documents(text: str) -> Iterator[tuple[object, int]]:
    decoder = json.JSONDecoder()
    space = re.compile(r"[ \t\r\n]*")
    position, line = 0, 1
    while True:
        following = space.match(text, position)
        begin = len(text) if following is None else following.end()
        line += text.count("\n", position, begin)
        if begin == len(text):
            return
        value, position = decoder.raw_decode(text, begin)
        yield value, line
        line += text.count("\n", begin, position)


def _yaml_documents(text: str, source: str) -> Iterator[tuple[object, int]]:
    line = 1
    try:
        loader = _Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                line = node.start_mark.line + 1
                yield loader.construct_document(node), line
        finally:
            loader.dispose()
    except _YAML_FAULTS as error:
        mark = getattr(error, "problem_mark", None)
        detail = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
        at = line if mark is None else mark.line + 1
        raise _fault(source, at, f"broken YAML: {' '.join(detail.split())[:160]}") from error


def _expand(value: object, source: str, line: int, depth: int = 0) -> Iterator[Located]:
    """The object itself, or the items of a list of objects."""
    if isinstance(value, list):
        items, inherited = value, {}
    elif not isinstance(value, dict):
        raise _fault(source, line, f"a {type(value).__name__} where an object should be")
    else:
        kind = value.get("kind")
        if not isinstance(kind, str) or not kind.endswith("List") or "items" not in value:
            yield Located(value, source, line)
            return
        items = [] if value["items"] is None else value["items"]
        inherited = {"apiVersion": value.get("apiVersion"), "kind": kind.removesuffix("List")}
        if kind == "List":
            inherited = {}
    if not isinstance(items, list) or depth == _DEEPEST_LIST:
        raise _fault(source, line, "a List whose items are not a list of objects")
    for item in items:
        complete = {**inherited, **item} if isinstance(item, dict) else item
        yield from _expand(complete, source, line, depth + 1)
